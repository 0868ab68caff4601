//! Frames that are too long for an uplink.
//!
//! ```text
//!   IPv6, or IPv4 that must not be cut ──► the sender is told which length fits
//!   other IPv4 ──────────────────────────► pieces (RFC 791 2.3)
//!   anything else ───────────────────────► lost
//! ```
//! Between a guest and a tunnel there is no router that would do so, and guests do not know how many bytes a tunnel
//! takes away. The message comes in the name of the packet's destination, as from tunnels that are ports of a Linux
//! bridge: the switch itself has no address.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use vrdma_wire::{EtherType, internet_checksum};

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;

/// First byte of an IPv4 header without options.
const PLAIN_IPV4: u8 = 0x45;
const MUST_NOT_BE_CUT: u16 = 0x4000;
const MORE_PIECES: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
/// Bytes of one unit of an offset.
const UNIT: usize = 8;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const HOPS: u8 = 64;
/// ICMP type and code: destination unreachable, fragmentation needed (RFC 1191 4).
const FRAGMENTATION_NEEDED: [u8; 2] = [3, 4];
/// ICMPv6 type and code: packet too big (RFC 4443 3.2).
const PACKET_TOO_BIG: [u8; 2] = [2, 0];
/// With its quote, a message is no longer than every host must accept (RFC 1812 4.3.2.3; RFC 4443 2.4).
const MESSAGE_BYTES_MAX: usize = 576;
const MESSAGE_BYTES_MAX_V6: usize = 1280;

/// What is done with such a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Oversize {
    /// It is lost, and this frame tells its sender.
    Tell(Vec<u8>),
    /// These frames go in its place.
    Cut(Vec<Vec<u8>>),
    /// It is lost.
    Lost,
}

impl Oversize {
    /// Decides about a frame whose packet is longer than `mtu` bytes.
    pub fn of(frame: &[u8], mtu: usize) -> Self {
        let Some((header, packet)) = frame.split_first_chunk::<ETHERNET_BYTES>() else {
            return Self::Lost;
        };
        let kind = EtherType(u16::from_be_bytes([header[12], header[13]]));
        let outcome = match kind {
            EtherType::IPV4 => ipv4(header, packet, mtu),
            EtherType::IPV6 => ipv6(header, packet, mtu).map(Self::Tell),
            _ => None,
        };
        outcome.unwrap_or(Self::Lost)
    }
}

fn ipv4(ethernet: &[u8; ETHERNET_BYTES], packet: &[u8], mtu: usize) -> Option<Oversize> {
    let (header, _) = packet.split_first_chunk::<IPV4_BYTES>()?;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let packet = packet.get(..length)?;
    let sound = header[0] == PLAIN_IPV4 && internet_checksum(header) == 0;
    (sound && length > mtu).then_some(())?;
    let flags = u16::from_be_bytes([header[6], header[7]]);
    if flags & MUST_NOT_BE_CUT == 0 {
        return pieces(ethernet, header, packet, mtu).map(Oversize::Cut);
    }
    may_be_told_ipv4(ethernet, packet, flags).then_some(())?;
    Some(Oversize::Tell(tell_ipv4(ethernet, packet, mtu)))
}

/// Whether the sender may be told: not about an ICMP message that reports something itself, a multicast packet, or a
/// later fragment (RFC 1122 3.2.2).
fn may_be_told_ipv4(ethernet: &[u8], packet: &[u8], flags: u16) -> bool {
    let source = Ipv4Addr::new(packet[12], packet[13], packet[14], packet[15]);
    let target = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
    let complains = packet[9] == ICMP && !matches!(packet.get(IPV4_BYTES), Some(0 | 8));
    let is_host = |ip: Ipv4Addr| !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast());
    ethernet[0] & 1 == 0 && flags & OFFSET == 0 && !complains && is_host(source) && is_host(target)
}

fn tell_ipv4(ethernet: &[u8; ETHERNET_BYTES], packet: &[u8], mtu: usize) -> Vec<u8> {
    let quoted = &packet[..packet.len().min(MESSAGE_BYTES_MAX - IPV4_BYTES - UNIT)];
    let mut message = Vec::from(FRAGMENTATION_NEEDED);
    message.extend([0; 4]);
    message.extend(u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes());
    message.extend_from_slice(quoted);
    fill_checksum(&mut message, 2, &[]);
    let length = (IPV4_BYTES + message.len()) as u16;
    let mut header = [0; IPV4_BYTES];
    header[0] = PLAIN_IPV4;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[8] = HOPS;
    header[9] = ICMP;
    header[12..16].copy_from_slice(&packet[16..20]);
    header[16..20].copy_from_slice(&packet[12..16]);
    fill_checksum(&mut header, 10, &[]);
    [&back(ethernet)[..], &header, &message].concat()
}

fn pieces(
    ethernet: &[u8],
    header: &[u8; IPV4_BYTES],
    packet: &[u8],
    mtu: usize,
) -> Option<Vec<Vec<u8>>> {
    let step = mtu.checked_sub(IPV4_BYTES)? / UNIT * UNIT;
    (step > 0).then_some(())?;
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let data = &packet[IPV4_BYTES..];
    let cut = data.chunks(step).enumerate().map(|(number, piece)| {
        let at = number * step;
        let more = at + piece.len() < data.len();
        let offset = usize::from(flags & OFFSET) + at / UNIT;
        let more = if more {
            MORE_PIECES
        } else {
            flags & MORE_PIECES
        };
        let offset = u16::try_from(offset).ok().filter(|it| *it <= OFFSET)?;
        let mut header = *header;
        let length = (IPV4_BYTES + piece.len()) as u16;
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[6..8].copy_from_slice(&(offset | more).to_be_bytes());
        header[10..12].fill(0);
        fill_checksum(&mut header, 10, &[]);
        Some([ethernet, &header, piece].concat())
    });
    cut.collect()
}

fn ipv6(ethernet: &[u8; ETHERNET_BYTES], packet: &[u8], mtu: usize) -> Option<Vec<u8>> {
    let (header, message) = packet.split_first_chunk::<IPV6_BYTES>()?;
    let length = IPV6_BYTES + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let packet = packet.get(..length)?;
    let source = Ipv6Addr::from(*header[8..].first_chunk::<16>()?);
    let target = Ipv6Addr::from(*header[24..].first_chunk::<16>()?);
    let complains = header[6] == ICMPV6 && message.first().is_some_and(|kind| *kind < 128);
    let from_host = !(source.is_unspecified() || source.is_multicast());
    let told = header[0] >> 4 == 6 && from_host && !target.is_multicast() && !complains;
    (told && ethernet[0] & 1 == 0 && length > mtu).then_some(())?;
    let quoted = &packet[..length.min(MESSAGE_BYTES_MAX_V6 - IPV6_BYTES - UNIT)];
    let mut message = Vec::from(PACKET_TOO_BIG);
    message.extend([0; 2]);
    message.extend(u32::try_from(mtu).unwrap_or(u32::MAX).to_be_bytes());
    message.extend_from_slice(quoted);
    let mut answer = [0; IPV6_BYTES];
    answer[0] = 0x60;
    answer[4..6].copy_from_slice(&(message.len() as u16).to_be_bytes());
    answer[6] = ICMPV6;
    answer[7] = HOPS;
    answer[8..24].copy_from_slice(&header[24..]);
    answer[24..].copy_from_slice(&header[8..24]);
    let mut pseudo = [0; IPV6_BYTES];
    pseudo[..32].copy_from_slice(&answer[8..]);
    pseudo[34..36].copy_from_slice(&answer[4..6]);
    pseudo[39] = ICMPV6;
    fill_checksum(&mut message, 2, &pseudo);
    Some([&back(ethernet)[..], &answer, &message].concat())
}

/// Returns the Ethernet header of an answer.
fn back(ethernet: &[u8; ETHERNET_BYTES]) -> [u8; ETHERNET_BYTES] {
    let mut back = *ethernet;
    back[..6].copy_from_slice(&ethernet[6..12]);
    back[6..12].copy_from_slice(&ethernet[..6]);
    back
}

/// Fills in a checksum that includes `before`; its place must be zero.
fn fill_checksum(bytes: &mut [u8], at: usize, before: &[u8]) {
    let sum = internet_checksum(&[before, bytes].concat());
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
