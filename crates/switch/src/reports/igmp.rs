//! IGMP: reports of IPv4 groups, and queries.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use vrdma_wire::{EtherType, Gid, Mac, internet_checksum};

use super::{Family, Listener, Query, SECOND, Says, granted};

const IGMP: u8 = 2;
const QUERY: u8 = 0x11;
const REPORT_V2: u8 = 0x16;
const LEAVE_V2: u8 = 0x17;
const REPORT_V3: u8 = 0x22;

const ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
const REPORTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);

/// Record types of version 3 (RFC 3376 4.2.12). "Excludes nothing" means listening to all senders.
const EXCLUDES: u8 = 2;
const NOW_INCLUDES: u8 = 3;
const NOW_EXCLUDES: u8 = 4;

/// Most records of one report: they fit 1500 bytes.
const RECORDS_MAX: usize = 180;

/// Bytes of an IP header with the option Router Alert (RFC 2113).
const HEADER: usize = 24;

pub(super) fn reports(who: &Listener, says: Says, older: bool, groups: &[Gid]) -> Vec<Vec<u8>> {
    let groups: Vec<_> = groups.iter().filter_map(|group| group.to_ipv4()).collect();
    if !older {
        return groups
            .chunks(RECORDS_MAX)
            .map(|some| current(who, says, some))
            .collect();
    }
    let each = groups.into_iter().map(|group| match says {
        Says::Left => packet(who, ROUTERS, message(LEAVE_V2, &group.octets())),
        Says::Joined | Says::Listens => packet(who, group, message(REPORT_V2, &group.octets())),
    });
    each.collect()
}

fn current(who: &Listener, says: Says, groups: &[Ipv4Addr]) -> Vec<u8> {
    let kind = match says {
        Says::Listens => EXCLUDES,
        Says::Joined => NOW_EXCLUDES,
        Says::Left => NOW_INCLUDES,
    };
    let mut body = Vec::with_capacity(4 + 8 * groups.len());
    body.extend([0, 0]);
    body.extend((groups.len() as u16).to_be_bytes());
    for group in groups {
        body.extend([kind, 0, 0, 0]);
        body.extend(group.octets());
    }
    packet(who, REPORTERS, message(REPORT_V3, &body))
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, 0, 0, 0], body].concat();
    let sum = internet_checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

fn packet(who: &Listener, to: Ipv4Addr, message: Vec<u8>) -> Vec<u8> {
    let length = (HEADER + message.len()) as u16;
    let mut ip = [0; HEADER];
    // Precedence "internetwork control", one hop.
    ip[..2].copy_from_slice(&[0x46, 0xc0]);
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip[6..10].copy_from_slice(&[0x40, 0, 1, IGMP]);
    ip[12..16].copy_from_slice(&who.ip.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
    ip[16..20].copy_from_slice(&to.octets());
    ip[20..].copy_from_slice(&[0x94, 4, 0, 0]);
    let sum = internet_checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let station = Gid::from_ipv4(to).group_mac().unwrap_or(Mac::BROADCAST);
    let kind = EtherType::IPV4.0.to_be_bytes();
    [&station.0[..], &who.mac.0, &kind, &ip, &message].concat()
}

/// Parses a query in an IPv4 packet.
pub(super) fn query(packet: &[u8]) -> Option<Query> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let length = usize::from(u16::from_be_bytes(*packet.get(2..)?.first_chunk()?));
    let right = packet[0] >> 4 == 4 && header >= 20 && *packet.get(9)? == IGMP;
    let message = packet.get(header..length).filter(|_| right)?;
    let [QUERY, code, _, _, a, b, c, d, ..] = *message else {
        return None;
    };
    if internet_checksum(message) != 0 {
        return None;
    }
    let group = Ipv4Addr::new(a, b, c, d);
    let older = message.len() < 12;
    let tenths = match (older, code) {
        // Version 1 implies ten seconds.
        (true, 0) => 100,
        (true, code) => u64::from(code),
        (false, code) => granted(code.into(), 4),
    };
    Some(Query {
        family: Family::Igmp,
        older,
        group: (!group.is_unspecified()).then_some(Gid::from_ipv4(group)),
        within: tenths * (SECOND / 10),
    })
}
