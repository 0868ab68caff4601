//! Work that a sender's kernel left to a network card that does not exist.
//!
//! Over a veth pair frames arrive as the sending stack made them: with checksums that cover only the pseudo header, and
//! as segments of up to 64 KiB; a NIC's driver joins received packets in the same way (GRO). The kernel describes this
//! in a header before the frame (`virtio_net_hdr`, VIRTIO 1.2 section 5.1.6; packet(7) PACKET_VNET_HDR):
//!
//! ```text
//!   0       1          2         4          6            8             10
//!   | flags | gso type | hdr len | gso size | csum start | csum offset | frame ...
//! ```

mod segmentation;
mod train;

use vrdma_wire::internet_checksum;

pub(crate) use train::{HEADERS_MAX, follows, head};

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 10;

/// A header that asks for nothing, for frames to send.
pub(crate) const NOTHING: [u8; HEADER_BYTES] = [0; HEADER_BYTES];

const NEEDS_CHECKSUM: u8 = 1;

/// Work that the kernel left to be done. The numbers are checked against the frame where they are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Offload {
    needs_checksum: bool,
    segmentation: u8,
    segment_size: usize,
    /// Offset at which the checksum begins: the TCP or UDP header.
    start: usize,
    /// Offset at which the checksum is stored.
    place: usize,
}

impl Offload {
    /// Reads the header in host byte order, as packet sockets write it. Returns it and the bytes after it.
    fn split(bytes: &mut [u8]) -> Option<(Self, &mut [u8])> {
        let (header, frame) = bytes.split_first_chunk_mut::<HEADER_BYTES>()?;
        let half = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let offload = Self {
            needs_checksum: header[0] & NEEDS_CHECKSUM != 0,
            segmentation: header[1],
            segment_size: half(4),
            start: half(6),
            place: half(6) + half(8),
        };
        Some((offload, frame))
    }
}

/// Does the work that was left for a frame behind its header. Passes on the frame, or the packets that it consists of;
/// `None` if the header does not fit the frame.
pub(crate) fn finish(
    bytes: &mut [u8],
    scratch: &mut Vec<u8>,
    packet: &mut impl FnMut(&mut [u8]),
) -> Option<()> {
    let (offload, frame) = Offload::split(bytes)?;
    if offload.segmentation != 0 {
        let (kind, size) = (offload.segmentation, offload.segment_size);
        if train::cut(kind, size, frame, packet).is_some() {
            return Some(());
        }
        return segmentation::cut(kind, size, offload.start, frame, scratch, packet);
    }
    if offload.needs_checksum {
        store_checksum(frame, offload.start, offload.place)?;
    }
    packet(frame);
    Some(())
}

/// Stores a checksum that is missing; `None` if its place is outside of the frame.
///
/// The field holds the sum of the pseudo header, so the sum over everything from `start` on, including the field, has
/// to be complemented. A UDP checksum of zero is sent as ones (RFC 768); for TCP the two are the same number.
fn store_checksum(frame: &mut [u8], start: usize, place: usize) -> Option<()> {
    let sum = match internet_checksum(frame.get(start..)?) {
        0 => 0xffff,
        sum => sum,
    };
    let field = frame.get_mut(place..place + 2)?;
    field.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(start: u16, offset: u16) -> Vec<u8> {
        let mut header = vec![NEEDS_CHECKSUM, 0, 0, 0, 0, 0];
        header.extend(start.to_ne_bytes());
        header.extend(offset.to_ne_bytes());
        header
    }

    fn finished(bytes: &mut [u8]) -> Option<Vec<u8>> {
        let mut frame = None;
        finish(bytes, &mut Vec::new(), &mut |packet| {
            frame = Some(packet.to_vec())
        })?;
        frame
    }

    #[test]
    fn headers_that_ask_for_nothing_change_nothing() {
        let mut bytes = [&NOTHING[..], &[1, 2, 3]].concat();
        assert_eq!(finished(&mut bytes), Some(vec![1, 2, 3]));
        assert_eq!(finished(&mut [0; 9]), None);
    }

    proptest! {
        #[test]
        fn finished_checksums_are_right(mut payload in prop::collection::vec(any::<u8>(), 20..90), pseudo: u16) {
            payload[16..18].copy_from_slice(&pseudo.to_be_bytes());
            let mut bytes = [header(14, 16), vec![0; 14], payload].concat();
            let frame = finished(&mut bytes).unwrap();
            // Verified as a receiver does: with the pseudo header's sum in front.
            let whole = [&pseudo.to_be_bytes()[..], &frame[14..]].concat();
            prop_assert_eq!(internet_checksum(&whole), 0);
        }

        #[test]
        fn places_outside_of_the_frame_are_refused(start: u16, offset: u16, len in 0usize..100) {
            let mut bytes = [header(start, offset), vec![7; len]].concat();
            let inside = usize::from(start) + usize::from(offset) + 2 <= len;
            prop_assert_eq!(finished(&mut bytes).is_some(), inside);
        }
    }
}
