//! Answers to echo requests (RFC 792; RFC 4443 4.1), so that people can ping an adapter.
//!
//! Fragments, IPv4 options and IPv6 extension headers are not answered.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use vrdma_wire::{Gid, internet_checksum};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// First byte of an IPv4 header of 20 bytes.
const PLAIN_IPV4: u8 = 0x45;
/// The bit for more fragments, and the offset.
const FRAGMENT: u16 = 0x3fff;
const HOPS: u8 = 64;

/// Types of the two messages of an echo.
#[derive(Clone, Copy)]
struct EchoTypes {
    /// Type of the request.
    request: u8,
    /// Type of the answer.
    reply: u8,
}

const ECHO: EchoTypes = EchoTypes {
    request: 8,
    reply: 0,
};
const ECHO_V6: EchoTypes = EchoTypes {
    request: 128,
    reply: 129,
};

/// Returns the IPv4 packet that answers one to `addresses`.
pub(super) fn answer_ipv4(addresses: &[Gid], packet: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = packet.split_first_chunk::<20>()?;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let message = rest.get(..length.checked_sub(header.len())?)?;
    let fragment = u16::from_be_bytes([header[6], header[7]]) & FRAGMENT;
    let plain = header[0] == PLAIN_IPV4 && header[9] == ICMP && fragment == 0;
    let theirs = Ipv4Addr::from(*header[12..].first_chunk::<4>()?);
    let ours = Ipv4Addr::from(*header[16..].first_chunk::<4>()?);
    let sound = internet_checksum(header) == 0 && internet_checksum(message) == 0;
    let is_ours = addresses.contains(&Gid::from_ipv4(ours));
    (plain && sound && is_ours && is_host(theirs)).then_some(())?;
    let mut reply = header.to_vec();
    reply[8] = HOPS;
    reply[10..12].fill(0);
    reply[12..16].copy_from_slice(&ours.octets());
    reply[16..20].copy_from_slice(&theirs.octets());
    let checksum = internet_checksum(&reply).to_be_bytes();
    reply[10..12].copy_from_slice(&checksum);
    reply.extend_from_slice(&echo(message, ECHO, &[])?);
    Some(reply)
}

/// Returns the IPv6 packet that answers one to `addresses`.
pub(super) fn answer_ipv6(addresses: &[Gid], packet: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = packet.split_first_chunk::<40>()?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let message = rest.get(..length)?;
    let theirs = Ipv6Addr::from(*header[8..].first_chunk::<16>()?);
    let ours = Ipv6Addr::from(*header[24..].first_chunk::<16>()?);
    let is_icmp = header[0] >> 4 == 6 && header[6] == ICMPV6;
    let is_ours = addresses.contains(&Gid(ours.octets()));
    let is_host = !theirs.is_unspecified() && !theirs.is_multicast();
    let sound = internet_checksum(&[&pseudo_header(header), message].concat()) == 0;
    (is_icmp && is_ours && is_host && sound).then_some(())?;
    let mut reply = header.to_vec();
    reply[7] = HOPS;
    reply[8..24].copy_from_slice(&ours.octets());
    reply[24..40].copy_from_slice(&theirs.octets());
    // The sum stays the same when the addresses change places.
    let message = echo(message, ECHO_V6, &pseudo_header(header))?;
    reply.extend_from_slice(&message);
    Some(reply)
}

/// Whether an echo may come from this address.
fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_broadcast())
}

/// Returns the part of ICMPv6's checksum besides the message (RFC 8200 8.1), from an IPv6 header.
fn pseudo_header(header: &[u8; 40]) -> [u8; 40] {
    let mut pseudo = [0; 40];
    pseudo[..32].copy_from_slice(&header[8..]);
    pseudo[34..36].copy_from_slice(&header[4..6]);
    pseudo[39] = ICMPV6;
    pseudo
}

fn echo(message: &[u8], types: EchoTypes, pseudo: &[u8]) -> Option<Vec<u8>> {
    let is_request = message.len() >= 8 && message[..2] == [types.request, 0];
    is_request.then_some(())?;
    let mut answer = message.to_vec();
    answer[..4].copy_from_slice(&[types.reply, 0, 0, 0]);
    let checksum = internet_checksum(&[pseudo, &answer].concat()).to_be_bytes();
    answer[2..4].copy_from_slice(&checksum);
    Some(answer)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);
    const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

    fn ping() -> Vec<u8> {
        let mut message = Vec::from([ECHO.request, 0, 0, 0, 0, 7, 0, 1, b'a', b'b', b'c']);
        let checksum = internet_checksum(&message).to_be_bytes();
        message[2..4].copy_from_slice(&checksum);
        let mut packet = Vec::from([PLAIN_IPV4, 0, 0, 31, 0, 0, 0, 0, 1, ICMP, 0, 0]);
        packet.extend_from_slice(&THEIRS.octets());
        packet.extend_from_slice(&OURS.octets());
        let checksum = internet_checksum(&packet).to_be_bytes();
        packet[10..12].copy_from_slice(&checksum);
        packet.extend_from_slice(&message);
        packet
    }

    fn answer(packet: &[u8]) -> Option<Vec<u8>> {
        answer_ipv4(&[Gid::from_ipv4(OURS)], packet)
    }

    #[test]
    fn a_ping_comes_back_with_its_payload() {
        let reply = answer(&ping()).unwrap();
        assert_eq!(
            (&reply[12..16], &reply[16..20]),
            (&OURS.octets()[..], &THEIRS.octets()[..])
        );
        assert_eq!((reply[20], &reply[28..]), (ECHO.reply, &b"abc"[..]));
        let sums = (
            internet_checksum(&reply[..20]),
            internet_checksum(&reply[20..]),
        );
        assert_eq!(sums, (0, 0));
        assert_eq!(answer(&reply), None, "a reply asks nothing");
        assert_eq!(answer_ipv4(&[], &ping()), None, "not to us");
    }

    #[test]
    fn what_is_torn_is_not_answered() {
        for (at, byte) in [(30, 0xff), (6, 0x20), (9, 17), (0, 0x46), (3, 200), (3, 8)] {
            let mut packet = ping();
            packet[at] = byte;
            assert_eq!(answer(&packet), None, "{at}");
        }
    }

    #[test]
    fn a_ping_over_ipv6_comes_back() {
        let (ours, theirs) = (Gid([0xfe; 16]), Gid([0xfc; 16]));
        let mut packet = Vec::from([0x60, 0, 0, 0, 0, 9, ICMPV6, 64]);
        packet.extend_from_slice(&theirs.0);
        packet.extend_from_slice(&ours.0);
        let head: [u8; 40] = packet.as_slice().try_into().unwrap();
        let mut message = Vec::from([ECHO_V6.request, 0, 0, 0, 0, 7, 0, 1, b'x']);
        let sum = internet_checksum(&[&pseudo_header(&head)[..], &message].concat());
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.extend_from_slice(&message);
        let reply = answer_ipv6(&[ours], &packet).unwrap();
        assert_eq!(
            (&reply[8..24], reply[40], reply[48]),
            (&ours.0[..], ECHO_V6.reply, b'x')
        );
        let head: [u8; 40] = reply[..40].try_into().unwrap();
        let whole = [&pseudo_header(&head)[..], &reply[40..]].concat();
        assert_eq!(internet_checksum(&whole), 0);
    }

    proptest! {
        #[test]
        fn no_packet_panics(at in 0usize..40, byte: u8, cut in 0usize..60) {
            let mut packet = ping();
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
            packet.truncate(cut);
            let _ = (answer(&packet), answer_ipv6(&[Gid([0; 16])], &packet));
        }
    }
}
