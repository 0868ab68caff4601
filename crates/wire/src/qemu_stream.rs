//! Frames in QEMU's `-netdev stream`: a four-byte big-endian length, then the frame
//! (QEMU net/stream.c, net/net.c `net_fill_rstate`).

use core::ops::Range;

/// Bytes of the length.
pub const HEADER_BYTES: usize = 4;

/// Bytes of the longest frame. This is the size of QEMU's receive buffer (`NET_BUFSIZE`, 4096 + 65536), and a QEMU that
/// is sent more drops its connection; an IPv6 packet of segmentation offload with headers fits.
pub const FRAME_BYTES_MAX: usize = 4096 + 65536;

/// What begins at a position in the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// A frame and its header; the next piece begins at the end.
    Whole(Range<usize>),
    /// An incomplete frame, or nothing.
    Partial,
    /// A length that no QEMU sends.
    Malformed(u32),
}

/// Examines the stream from `at` on.
pub fn piece(bytes: &[u8], at: usize) -> Piece {
    let Some(header) = bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<HEADER_BYTES>())
    else {
        return Piece::Partial;
    };
    let length = u32::from_be_bytes(*header);
    match usize::try_from(length) {
        Ok(frame @ 1..=FRAME_BYTES_MAX) => {
            let end = at + HEADER_BYTES + frame;
            if end <= bytes.len() {
                Piece::Whole(at..end)
            } else {
                Piece::Partial
            }
        }
        _ => Piece::Malformed(length),
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
        let framed = frames.iter().map(|frame| {
            let length = u32::try_from(frame.len()).unwrap();
            [&length.to_be_bytes()[..], frame].concat()
        });
        framed.collect::<Vec<_>>().concat()
    }

    #[test]
    fn lengths_have_bounds() {
        assert_eq!(piece(&[0, 0, 0, 0, 1], 0), Piece::Malformed(0));
        assert_eq!(piece(&[0xff; 8], 0), Piece::Malformed(u32::MAX));
        let longest = u32::try_from(FRAME_BYTES_MAX).unwrap();
        assert_eq!(piece(&longest.to_be_bytes(), 0), Piece::Partial);
        assert_eq!(
            piece(&(longest + 1).to_be_bytes(), 0),
            Piece::Malformed(longest + 1)
        );
    }

    #[test]
    fn a_place_past_the_end_is_partial() {
        assert_eq!(piece(&[0; 4], 9), Piece::Partial);
    }

    proptest! {
        #[test]
        fn what_was_framed_comes_back(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 0..20), cut in any::<prop::sample::Index>()) {
            let bytes = stream(&frames);
            let bytes = &bytes[..cut.index(bytes.len() + 1)];
            let (mut at, mut seen) = (0, 0);
            while let Piece::Whole(range) = piece(bytes, at) {
                prop_assert_eq!(&bytes[range.start + HEADER_BYTES..range.end], &frames[seen][..]);
                at = range.end;
                seen += 1;
            }
            prop_assert!(seen == frames.len() || bytes.len() < at + HEADER_BYTES + frames[seen].len());
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut at = 0;
            while let Piece::Whole(range) = piece(&bytes, at) {
                prop_assert!(range.end > at && range.end <= bytes.len());
                at = range.end;
            }
        }
    }
}
