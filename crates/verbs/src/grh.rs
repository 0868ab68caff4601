//! The 40 bytes in front of a received datagram.
//!
//! ```text
//!   IPv4   0..20 zero   20..40 IPv4 header with a correct checksum, by which receivers tell it apart
//!   IPv6   0..40 IPv6 header
//! ```
//!
//! RoCEv2 annex A17.4.5.2: the area shows the IP header with which the datagram travelled.

use core::net::Ipv4Addr;

use crate::unit::Route;

/// Size of the area.
pub(crate) const GRH_BYTES: u32 = 40;

/// Next header of RoCEv2: UDP.
const PROTOCOL_UDP: u8 = 17;
/// UDP, BTH and DETH in front of the payload, ICRC behind it.
const OVERHEAD: u32 = 8 + 12 + 8 + 4;
/// Immediate data extension.
const IMM_BYTES: u32 = 4;
const IPV4_BYTES: u32 = 20;
const IPV4_VERSION_AND_IHL: u8 = 0x45;
const IPV4_DONT_FRAGMENT: u8 = 0x40;

/// Makes the area for a datagram of `payload` bytes.
pub(crate) fn header_area(route: &Route, payload: u32, imm: bool) -> [u8; GRH_BYTES as usize] {
    let padded = payload.next_multiple_of(4);
    let length = OVERHEAD + padded + if imm { IMM_BYTES } else { 0 };
    match (route.sgid.to_ipv4(), route.dgid.to_ipv4()) {
        (Some(from), Some(to)) => ipv4_area(route, from, to, length),
        _ => ipv6_area(route, length),
    }
}

fn ipv4_area(route: &Route, from: Ipv4Addr, to: Ipv4Addr, length: u32) -> [u8; 40] {
    let mut area = [0; 40];
    let header = &mut area[20..];
    header[0] = IPV4_VERSION_AND_IHL;
    header[1] = route.traffic_class;
    header[2..4].copy_from_slice(&((IPV4_BYTES + length) as u16).to_be_bytes());
    header[6] = IPV4_DONT_FRAGMENT;
    header[8] = route.hop_limit;
    header[9] = PROTOCOL_UDP;
    header[12..16].copy_from_slice(&from.octets());
    header[16..20].copy_from_slice(&to.octets());
    let sum = checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    area
}

fn ipv6_area(route: &Route, length: u32) -> [u8; 40] {
    let mut area = [0; 40];
    let word = 6 << 28 | u32::from(route.traffic_class) << 20 | route.flow_label & 0xf_ffff;
    area[..4].copy_from_slice(&word.to_be_bytes());
    area[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    area[6] = PROTOCOL_UDP;
    area[7] = route.hop_limit;
    area[8..24].copy_from_slice(&route.sgid.0);
    area[24..].copy_from_slice(&route.dgid.0);
    area
}

/// Computes the Internet checksum (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
