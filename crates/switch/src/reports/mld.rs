//! MLD: reports of IPv6 groups, and queries.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use vrdma_wire::{EtherType, Format, Gid, Ipv6, Ipv6View, Mac};

use super::{Family, Query, SECOND, Says, granted};
use crate::host::checksum;

const HOP_BY_HOP: u8 = 0;
const ICMPV6: u8 = 58;
const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const DONE_V1: u8 = 132;
const REPORT_V2: u8 = 143;

const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const REPORTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Record types of version 2 (RFC 3810 5.2.12), as those of IGMP.
const EXCLUDES: u8 = 2;
const NOW_INCLUDES: u8 = 3;
const NOW_EXCLUDES: u8 = 4;

/// Most records of one report: they fit the smallest IPv6 MTU.
const RECORDS_MAX: usize = 60;

/// A hop-by-hop header with the option Router Alert (RFC 2711) for MLD, and padding.
const ALERT: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];

pub(super) fn reports(mac: Mac, says: Says, older: bool, groups: &[Gid]) -> Vec<Vec<u8>> {
    if !older {
        return groups
            .chunks(RECORDS_MAX)
            .map(|some| current(mac, says, some))
            .collect();
    }
    let each = groups.iter().map(|group| {
        let body = [&[0; 4][..], &group.0].concat();
        match says {
            Says::Left => packet(mac, ROUTERS, DONE_V1, &body),
            Says::Joined | Says::Listens => packet(mac, group.to_ipv6(), REPORT_V1, &body),
        }
    });
    each.collect()
}

fn current(mac: Mac, says: Says, groups: &[Gid]) -> Vec<u8> {
    let kind = match says {
        Says::Listens => EXCLUDES,
        Says::Joined => NOW_EXCLUDES,
        Says::Left => NOW_INCLUDES,
    };
    let mut body = Vec::with_capacity(4 + 20 * groups.len());
    body.extend([0, 0]);
    body.extend((groups.len() as u16).to_be_bytes());
    for group in groups {
        body.extend([kind, 0, 0, 0]);
        body.extend(group.0);
    }
    packet(mac, REPORTERS, REPORT_V2, &body)
}

fn packet(mac: Mac, to: Ipv6Addr, kind: u8, body: &[u8]) -> Vec<u8> {
    let source = Gid::link_local(mac).to_ipv6();
    let mut message = [&[kind, 0, 0, 0], body].concat();
    let sum = checksum(source, to, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let ip = Ipv6 {
        source,
        destination: to,
        traffic_class: Default::default(),
        flow_label: Default::default(),
        next_header: HOP_BY_HOP,
        hop_limit: 1,
        payload_len: (ALERT.len() + message.len()) as u16,
    };
    let mut header = [0; Ipv6::LEN];
    ip.emit(&mut header);
    let station = Gid(to.octets()).group_mac().unwrap_or(Mac::BROADCAST);
    let ether_type = EtherType::IPV6.0.to_be_bytes();
    [
        &station.0[..],
        &mac.0,
        &ether_type,
        &header,
        &ALERT,
        &message,
    ]
    .concat()
}

/// Parses a query in an IPv6 packet.
pub(super) fn query(packet: &[u8]) -> Option<Query> {
    let ip = Ipv6View::new(packet).ok()?;
    let options = ip.payload();
    let [ICMPV6, words, ..] = *options else {
        return None;
    };
    let message = options.get(8 + 8 * usize::from(words)..)?;
    let right = ip.next_header() == HOP_BY_HOP
        && ip.hop_limit() == 1
        && ip.source().is_unicast_link_local()
        && message.first() == Some(&QUERY)
        && checksum(ip.source(), ip.destination(), message) == 0;
    let code = u16::from_be_bytes(*message.get(4..)?.first_chunk()?);
    let group = Gid(*message.get(8..)?.first_chunk()?);
    let older = message.len() < 28;
    let milliseconds = if older {
        code.into()
    } else {
        granted(code, 12)
    };
    right.then_some(Query {
        family: Family::Mld,
        older,
        group: (!group.is_zero()).then_some(group),
        within: milliseconds * (SECOND / 1000),
    })
}
