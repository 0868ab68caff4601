//! The fuzz bodies as plain tests, with any bytes, and with captured packets that are changed a little.

use std::vec::Vec;

use proptest::prelude::*;

use super::capture;
use crate::field::put;
use crate::registry::{FORMATS, exercise};
use crate::{Packet, internet_checksum};

/// Changes bytes of `frame`, cuts it, and gives IPv4 a right checksum so that the deeper layers are reached.
fn bend(mut frame: Vec<u8>, bends: &[(prop::sample::Index, u8)], keep: usize) -> Vec<u8> {
    for (at, byte) in bends {
        let at = at.index(frame.len());
        frame[at] = *byte;
    }
    frame.truncate(frame.len().saturating_sub(keep));
    if frame.len() >= 34 && frame[12..15] == [8, 0, 0x45] {
        put(&mut frame, 24, [0, 0]);
        let checksum = internet_checksum(&frame[14..34]);
        put(&mut frame, 24, checksum.to_be_bytes());
    }
    frame
}

fn captured_frames() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(capture::all()).prop_map(|captured| captured.frame)
}

proptest! {
    #[test]
    fn no_bytes_break_a_format(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in FORMATS {
            (format.exercise)(&bytes);
        }
        exercise(&bytes);
    }

    #[test]
    fn no_bent_packet_breaks_the_parser(
        frame in captured_frames(),
        bends in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..6),
        cut in prop_oneof![3 => Just(0usize), 1 => 0usize..100],
    ) {
        let frame = bend(frame, &bends, cut);
        for format in FORMATS {
            (format.exercise)(&frame);
        }
    }

    /// Tests headers alone, which random bytes and changed frames seldom reach: with a captured payload, or a captured
    /// frame from the place where a format begins.
    #[test]
    fn every_format_sees_captured_bytes(
        frame in captured_frames(),
        start in any::<prop::sample::Index>(),
        bends in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..3),
    ) {
        let packet = Packet::dissect(&frame).unwrap();
        let ip = packet.ip().header().len();
        let ethernet = packet.path().ethernet_len();
        let begins = [0, ethernet, ethernet + ip, ethernet + ip + 8, ethernet + ip + 20];
        let payload = packet.payload();
        let bytes = if payload.is_empty() { &frame[..] } else { payload };
        let place = &frame[begins[start.index(begins.len())]..];
        for bytes in [place, bytes] {
            let bent = bend(bytes.to_vec(), &bends, 0);
            for format in FORMATS {
                (format.exercise)(&bent);
            }
        }
    }
}
