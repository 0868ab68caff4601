//! Packets of one RoCEv2 flow as one message, which the kernel or a network card cuts (USO).
//!
//! ```text
//!   waiting     | offload | headers | payload 1 | offload | headers | payload 2 | ...
//!   message     | offload, headers of all | payload 1 | payload 2 | ...
//!   arriving    | offload, headers of all | payload 1 | payload 2 | ...
//!   in place                              | payload 1 | payload 2 ...
//!                                    '- headers -'  written over what was taken already
//! ```
//! The cutter increments IPv4 identifications, which the ICRC covers: packets are only joined if they were made so. It
//! stores UDP checksums, which the ICRC does not cover.

use vrdma_wire::{EtherType, PROTOCOL_UDP, ROCE_PORT, internet_checksum};

use super::{HEADER_BYTES, NEEDS_CHECKSUM};

/// Kind of `virtio_net_hdr`: UDP packets (VIRTIO 1.2 section 5.1.6).
const UDP: u8 = 5;

const IP_AT: usize = 14;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
const UDP_LEN: usize = 8;
/// Offset of the checksum inside a UDP header.
const CHECKSUM: usize = 6;

/// Most bytes of headers in front of the payload.
pub(crate) const HEADERS_MAX: usize = IP_AT + V6_LEN + UDP_LEN;

/// Bytes of the longest IP packet.
const IP_BYTES_MAX: usize = u16::MAX as usize;

/// Offsets of a frame's headers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Headers {
    v6: bool,
    udp: usize,
    payload: usize,
}

impl Headers {
    /// Finds the headers of an untagged frame to the RoCEv2 port, without options.
    fn find(frame: &[u8]) -> Option<Self> {
        let kind = EtherType(half(frame, IP_AT - 2)?);
        let (v6, protocol, ip_len) = match kind {
            EtherType::IPV4 if *frame.get(IP_AT)? == 0x45 => (false, 9, V4_LEN),
            EtherType::IPV6 => (true, 6, V6_LEN),
            _ => return None,
        };
        let udp = IP_AT + ip_len;
        let found = Self {
            v6,
            udp,
            payload: udp + UDP_LEN,
        };
        let named = *frame.get(IP_AT + protocol)? == PROTOCOL_UDP
            && half(frame, udp + 2)? == ROCE_PORT
            && frame.len() > found.payload;
        named.then_some(found)
    }

    /// Whether lengths are those of the frame and no checksum is stored.
    fn are_plain(self, frame: &[u8]) -> bool {
        let (ip, udp) = (frame.len() - IP_AT, frame.len() - self.udp);
        let lengths = if self.v6 {
            half(frame, IP_AT + 4) == Some((ip - V6_LEN) as u16)
        } else {
            half(frame, IP_AT + 2) == Some(ip as u16) && half(frame, IP_AT + 6) == Some(0x4000)
        };
        lengths
            && half(frame, self.udp + 4) == Some(udp as u16)
            && half(frame, self.udp + CHECKSUM) == Some(0)
    }

    /// The fields that all packets of a train share.
    fn shared(self, frame: &[u8]) -> [&[u8]; 3] {
        let (front, addresses) = if self.v6 {
            (&frame[..IP_AT + 4], &frame[IP_AT + 6..self.udp + 4])
        } else {
            (&frame[..IP_AT + 2], &frame[IP_AT + 12..self.udp + 4])
        };
        [front, addresses, &frame[IP_AT + 6..IP_AT + 10]]
    }

    fn identification(self, frame: &[u8]) -> Option<u16> {
        half(frame, IP_AT + 4).filter(|_| !self.v6)
    }

    /// Turns headers into those of an IP packet with this payload length, with a checksum that is still to be completed
    /// or with none.
    fn set_length(self, headers: &mut [u8], payload: usize, sums: bool) {
        let udp = (UDP_LEN + payload) as u16;
        if self.v6 {
            put(headers, IP_AT + 4, udp);
        } else {
            put(headers, IP_AT + 2, V4_LEN as u16 + udp);
            put(headers, IP_AT + 10, 0);
            let sum = internet_checksum(&headers[IP_AT..self.udp]);
            put(headers, IP_AT + 10, sum);
        }
        put(headers, self.udp + 4, udp);
        let sum = if sums {
            self.pseudo_sum(headers, udp)
        } else {
            0
        };
        put(headers, self.udp + CHECKSUM, sum);
    }

    /// Returns the sum of addresses, protocol and length (RFC 768, RFC 8200 section 8.1), not complemented.
    fn pseudo_sum(self, headers: &[u8], udp: u16) -> u16 {
        let addresses = if self.v6 { 8 } else { 12 };
        let addresses = &headers[IP_AT + addresses..self.udp];
        let [high, low] = udp.to_be_bytes();
        let mut pseudo = [0; V6_LEN];
        pseudo[..addresses.len()].copy_from_slice(addresses);
        pseudo[V6_LEN - 4..].copy_from_slice(&[0, PROTOCOL_UDP, high, low]);
        !internet_checksum(&pseudo)
    }
}

/// Whether a frame may be number `number` of the train that `first` begins.
pub(crate) fn follows(first: &[u8], number: usize, next: &[u8]) -> bool {
    let (Some(headers), Some(same)) = (Headers::find(first), Headers::find(next)) else {
        return false;
    };
    let plain = headers == same && headers.are_plain(first) && headers.are_plain(next);
    let payload = (number + 1) * (first.len() - headers.payload);
    let fits = headers.payload + payload <= IP_BYTES_MAX;
    let expected = headers
        .identification(first)
        .map(|first| first.wrapping_add(number as u16));
    plain
        && fits
        && headers.shared(first) == headers.shared(next)
        && headers.identification(next) == expected
}

/// Returns what is sent before the payloads of a train: the offload header and the packets' headers. Also returns how
/// many bytes of each waiting frame they replace.
pub(crate) fn head(
    first: &[u8],
    train: &[u8],
    stride: usize,
) -> Option<([u8; HEADER_BYTES + HEADERS_MAX], usize)> {
    let frame = first.get(HEADER_BYTES..)?;
    let headers = Headers::find(frame)?;
    let replaced = HEADER_BYTES + headers.payload;
    let payload = train
        .len()
        .checked_sub(train.len().div_ceil(stride.max(1)) * replaced)?;
    let mut head = [0; HEADER_BYTES + HEADERS_MAX];
    let (offload, copy) = head.split_at_mut(HEADER_BYTES);
    copy[..headers.payload].copy_from_slice(&frame[..headers.payload]);
    headers.set_length(&mut copy[..headers.payload], payload, true);
    offload[..2].copy_from_slice(&[NEEDS_CHECKSUM, UDP]);
    let halves = [headers.payload, stride - replaced, headers.udp, CHECKSUM];
    for (half, value) in offload[2..].chunks_exact_mut(2).zip(halves) {
        half.copy_from_slice(&(value as u16).to_ne_bytes());
    }
    Some((head, replaced))
}

/// Passes on the packets of a received train; `None`, and no packets, if the frame is not a train.
pub(super) fn cut(
    kind: u8,
    size: usize,
    frame: &mut [u8],
    packet: &mut impl FnMut(&mut [u8]),
) -> Option<()> {
    let headers = Headers::find(frame).filter(|_| kind == UDP && size >= HEADERS_MAX)?;
    let mut original = [0; HEADERS_MAX];
    let original = &mut original[..headers.payload];
    original.copy_from_slice(&frame[..headers.payload]);
    let first = headers.identification(frame);
    let payload = frame.len() - headers.payload;
    for (number, offset) in (0..payload).step_by(size).enumerate() {
        let length = size.min(payload - offset);
        if let Some(first) = first {
            put(original, IP_AT + 4, first.wrapping_add(number as u16));
        }
        headers.set_length(original, length, false);
        let piece = &mut frame[offset..offset + headers.payload + length];
        piece[..headers.payload].copy_from_slice(original);
        packet(piece);
    }
    Some(())
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
