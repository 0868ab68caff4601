//! Captures for Wireshark and tshark: pcap with nanoseconds, Ethernet frames (draft-ietf-opsawg-pcap).
//!
//! ```text
//!   file    a1b23c4d | 2 | 4 | 0 | 0 | snap length | 1         host byte order, as the magic tells
//!   record  seconds | nanoseconds | captured | on the wire | bytes ...
//! ```

use core::time::Duration;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

const VERSION: [u16; 2] = [2, 4];
const LINKTYPE_ETHERNET: u32 = 1;

/// Most bytes of one packet that Wireshark accepts.
const SNAP_BYTES: u32 = 262_144;

/// Returns the header of a capture file.
pub fn pcap_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&MAGIC_NANOSECONDS.to_ne_bytes());
    header[4..6].copy_from_slice(&VERSION[0].to_ne_bytes());
    header[6..8].copy_from_slice(&VERSION[1].to_ne_bytes());
    header[16..20].copy_from_slice(&SNAP_BYTES.to_ne_bytes());
    header[20..].copy_from_slice(&LINKTYPE_ETHERNET.to_ne_bytes());
    header
}

/// Returns the header of a frame that passed at a time since 1970, or since the start of a simulation, and as much of
/// the frame as a capture has room for.
pub fn pcap_record(at: Duration, frame: &[u8]) -> ([u8; 16], &[u8]) {
    let captured = &frame[..frame.len().min(SNAP_BYTES as usize)];
    let numbers = [
        at.as_secs() as u32,
        at.subsec_nanos(),
        captured.len() as u32,
        frame.len() as u32,
    ];
    let mut header = [0; 16];
    for (place, number) in header.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    (header, captured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_laid_out_as_the_draft_says() {
        let (record, captured) = pcap_record(Duration::new(7, 9), &[1, 2, 3]);
        let numbers = [2 | 4 << 16, 0, 0, 262_144, 1, 7, 9, 3, 3];
        let mut expected = [0; 40];
        expected[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        for (place, number) in expected[4..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&u32::to_le_bytes(number));
        }
        if cfg!(target_endian = "little") {
            assert_eq!(pcap_header(), expected[..24]);
            assert_eq!(record, expected[24..]);
        }
        assert_eq!(captured, [1, 2, 3]);
    }

    #[test]
    fn what_is_longer_than_a_capture_takes_is_cut() {
        let frame = [0; SNAP_BYTES as usize + 1];
        let (record, captured) = pcap_record(Duration::ZERO, &frame);
        assert_eq!(captured.len(), SNAP_BYTES as usize);
        let lengths = [SNAP_BYTES, SNAP_BYTES + 1].map(u32::to_ne_bytes);
        assert_eq!(record[8..], *lengths.as_flattened());
    }
}
