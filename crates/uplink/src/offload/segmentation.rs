//! Cuts a segment of up to 64 KiB into packets, as a network card would (TSO and USO).
//!
//! ```text
//!   | Ethernet | IP | TCP or UDP | payload .................... |
//!   | Ethernet | IP | TCP or UDP | payload 1 |     lengths, IPv4 identification, TCP sequence and
//!   | Ethernet | IP | TCP or UDP | payload 2 |     flags, and checksums are those of each packet
//! ```

use vrdma_wire::offset::{TAG_BYTES, TYPE_AT};
use vrdma_wire::{EtherType, internet_checksum};

/// Kinds of `virtio_net_hdr` (VIRTIO 1.2 section 5.1.6, linux/virtio_net.h). ECN is a flag that says that only the
/// first packet shall carry CWR, which is always done here.
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

/// Smallest packet payload: no stack cuts finer, and finer would turn one frame into thousands.
const SIZE_MIN: usize = 8;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = vrdma_wire::PROTOCOL_UDP;
const UDP_HEADER: usize = 8;
const TCP_CHECKSUM_AT: usize = 16;
const UDP_CHECKSUM_AT: usize = 6;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Offsets of a segment's headers.
#[derive(Clone, Copy)]
struct Headers {
    ip: usize,
    v6: bool,
    l4: usize,
    tcp: bool,
    payload: usize,
}

/// One packet of a segment.
struct SegmentPacket {
    number: usize,
    /// Payload bytes before this packet.
    offset: usize,
    last: bool,
}

/// Passes on the packets of a segment, each made in `scratch`; `None` if the frame is not what `kind` says, or of a
/// kind that was not asked for.
pub(super) fn cut(
    kind: u8,
    size: usize,
    l4: usize,
    frame: &[u8],
    scratch: &mut Vec<u8>,
    packet: &mut impl FnMut(&mut [u8]),
) -> Option<()> {
    let headers = Headers::find(kind & !ECN, l4, frame)?;
    let payload = &frame[headers.payload..];
    if size < SIZE_MIN || payload.is_empty() {
        return None;
    }
    for (number, piece) in payload.chunks(size).enumerate() {
        scratch.clear();
        scratch.extend_from_slice(&frame[..headers.payload]);
        scratch.extend_from_slice(piece);
        let offset = number * size;
        let last = offset + piece.len() == payload.len();
        headers.correct(
            scratch,
            &SegmentPacket {
                number,
                offset,
                last,
            },
        )?;
        packet(scratch);
    }
    Some(())
}

impl Headers {
    fn find(kind: u8, l4: usize, frame: &[u8]) -> Option<Self> {
        let half = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let tagged = half(TYPE_AT)? == EtherType::VLAN.0;
        let ip = TYPE_AT + 2 + if tagged { TAG_BYTES } else { 0 };
        let v6 = half(ip - 2)? == EtherType::IPV6.0;
        let ip_header = if v6 { 40 } else { 20 };
        let tcp = match (kind, v6) {
            (TCP_V4, false) | (TCP_V6, true) => true,
            (UDP, _) if v6 || half(ip - 2)? == EtherType::IPV4.0 => false,
            _ => return None,
        };
        let header = if tcp {
            usize::from(frame.get(l4 + 12)? >> 4) * 4
        } else {
            UDP_HEADER
        };
        let payload = l4 + header;
        let whole = l4 >= ip + ip_header && payload <= frame.len() && (!tcp || header >= 20);
        whole.then_some(Self {
            ip,
            v6,
            l4,
            tcp,
            payload,
        })
    }

    /// Turns a copy of the segment's headers into the headers of one packet.
    fn correct(&self, packet: &mut [u8], place: &SegmentPacket) -> Option<()> {
        let l4_len = u16::try_from(packet.len() - self.l4).ok()?;
        if self.v6 {
            let len = u16::try_from(packet.len() - self.ip - 40).ok()?;
            put(packet, self.ip + 4, len.to_be_bytes());
        } else {
            self.correct_v4(packet, place)?;
        }
        if self.tcp {
            self.correct_tcp(packet, place);
        } else {
            put(packet, self.l4 + 4, l4_len.to_be_bytes());
        }
        let at = self.l4
            + if self.tcp {
                TCP_CHECKSUM_AT
            } else {
                UDP_CHECKSUM_AT
            };
        let pseudo = self.pseudo_sum(packet, l4_len);
        put(packet, at, pseudo.to_be_bytes());
        super::store_checksum(packet, self.l4, at)
    }

    fn correct_v4(&self, packet: &mut [u8], place: &SegmentPacket) -> Option<()> {
        let ip = self.ip;
        let len = u16::try_from(packet.len() - ip).ok()?;
        let id = u16::from_be_bytes([packet[ip + 4], packet[ip + 5]]);
        put(packet, ip + 2, len.to_be_bytes());
        put(
            packet,
            ip + 4,
            id.wrapping_add(place.number as u16).to_be_bytes(),
        );
        put(packet, ip + 10, [0, 0]);
        let sum = internet_checksum(&packet[ip..self.l4]);
        put(packet, ip + 10, sum.to_be_bytes());
        Some(())
    }

    /// Corrects the TCP header. FIN and PSH belong to the last packet, CWR to the first (RFC 3168 section 6.1.2).
    fn correct_tcp(&self, packet: &mut [u8], place: &SegmentPacket) {
        let at = self.l4 + 4;
        let sequence =
            u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
        put(
            packet,
            at,
            sequence.wrapping_add(place.offset as u32).to_be_bytes(),
        );
        let flags = &mut packet[self.l4 + 13];
        if !place.last {
            *flags &= !FIN_PSH;
        }
        if place.number > 0 {
            *flags &= !CWR;
        }
    }

    /// Returns the sum of addresses, protocol and length (RFC 9293 section 3.1, RFC 8200 section 8.1).
    fn pseudo_sum(&self, packet: &[u8], l4_len: u16) -> u16 {
        let addresses = if self.v6 { 8..40 } else { 12..20 };
        let addresses = &packet[self.ip + addresses.start..self.ip + addresses.end];
        let protocol = if self.tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
        let [high, low] = l4_len.to_be_bytes();
        let mut pseudo = [0; 36];
        pseudo[..addresses.len()].copy_from_slice(addresses);
        pseudo[32..].copy_from_slice(&[0, protocol, high, low]);
        !internet_checksum(&pseudo)
    }
}

fn put<const N: usize>(packet: &mut [u8], at: usize, field: [u8; N]) {
    packet[at..at + N].copy_from_slice(&field);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADERS_V4: usize = 14 + 20 + 32;

    /// Makes a segment with a 12-byte TCP option, FIN, PSH, ACK and CWR.
    fn segment(v6: bool, payload: &[u8]) -> (Vec<u8>, usize) {
        let mut frame = vec![2; 12];
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, PROTOCOL_TCP, 64]);
            frame.extend((0..32).map(|byte| byte * 7));
        } else {
            frame.extend([
                0x08,
                0,
                0x45,
                0,
                0,
                0,
                0xff,
                0xff,
                0x40,
                0,
                64,
                PROTOCOL_TCP,
                0,
                0,
            ]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        }
        let l4 = frame.len();
        frame.extend([0x80, 0, 0x14, 0x51, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 1]);
        frame.extend([0x80, 0x80 | 0x10 | FIN_PSH, 1, 0, 0, 0, 0, 0]);
        frame.extend([1; 12]);
        frame.extend(payload);
        (frame, l4)
    }

    fn packets(kind: u8, size: usize, l4: usize, frame: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut packets = Vec::new();
        let done = cut(kind, size, l4, frame, &mut Vec::new(), &mut |packet| {
            packets.push(packet.to_vec())
        });
        done.map(|()| packets)
    }

    fn sequence(packet: &[u8], l4: usize) -> u32 {
        u32::from_be_bytes(*packet[l4 + 4..].first_chunk().unwrap())
    }

    #[test]
    fn flags_and_numbers_are_those_of_a_card() {
        let (frame, l4) = segment(false, &[9; 250]);
        let packets = packets(TCP_V4 | ECN, 100, l4, &frame).unwrap();
        let lengths: Vec<_> = packets
            .iter()
            .map(|packet| packet.len() - HEADERS_V4)
            .collect();
        assert_eq!(lengths, [100, 100, 50]);
        let flags: Vec<_> = packets.iter().map(|packet| packet[l4 + 13]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19]);
        let ids: Vec<_> = packets
            .iter()
            .map(|packet| [packet[18], packet[19]])
            .collect();
        assert_eq!(ids, [[0xff, 0xff], [0, 0], [0, 1]]);
        assert_eq!(sequence(&packets[2], l4), 0xffff_fff0_u32.wrapping_add(200));
        for packet in packets {
            assert_eq!(internet_checksum(&packet[14..34]), 0);
        }
    }

    #[test]
    fn what_is_not_as_announced_is_refused() {
        let (frame, l4) = segment(false, &[9; 250]);
        for (kind, size, l4, frame) in [
            (TCP_V6, 100, l4, &frame[..]),
            (2, 100, l4, &frame),
            (TCP_V4, 7, l4, &frame),
            (TCP_V4, 100, l4 - 1, &frame),
            (TCP_V4, 100, 60_000, &frame),
            (TCP_V4, 100, l4, &frame[..HEADERS_V4]),
            (TCP_V4, 100, l4, &frame[..13]),
        ] {
            assert_eq!(packets(kind, size, l4, frame), None);
        }
    }

    proptest! {
        #[test]
        fn the_payload_is_kept_and_sums_are_right(v6: bool, payload in prop::collection::vec(any::<u8>(), 1..4000), size in 8usize..1500) {
            let (frame, l4) = segment(v6, &payload);
            let kind = if v6 { TCP_V6 } else { TCP_V4 };
            let mut joined: Vec<u8> = Vec::new();
            for packet in packets(kind, size, l4, &frame).unwrap() {
                let headers = Headers::find(kind, l4, &packet).unwrap();
                let pseudo = headers.pseudo_sum(&packet, (packet.len() - l4) as u16);
                let whole = [&pseudo.to_be_bytes()[..], &packet[l4..]].concat();
                prop_assert_eq!(internet_checksum(&whole), 0);
                prop_assert_eq!(sequence(&packet, l4), 0xffff_fff0_u32.wrapping_add(joined.len() as u32));
                joined.extend(&packet[l4 + 32..]);
            }
            prop_assert_eq!(joined, payload);
        }

        #[test]
        fn any_frame_is_cut_or_refused(kind: u8, size in 0usize..70000, l4 in 0usize..70000, frame in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = packets(kind, size, l4, &frame);
        }
    }
}
