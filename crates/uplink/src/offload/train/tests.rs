use proptest::prelude::*;

use super::*;
use crate::offload::{NOTHING, finish};

/// Makes a RoCEv2 frame like the engine's.
fn frame(v6: bool, identification: u16, payload: &[u8]) -> Vec<u8> {
    let udp = (UDP_LEN + payload.len()) as u16;
    let mut frame = vec![2; 12];
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(udp.to_be_bytes());
        frame.extend([PROTOCOL_UDP, 64]);
        frame.extend((0..32).map(|byte| byte * 7));
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((udp + 20).to_be_bytes());
        frame.extend(identification.to_be_bytes());
        frame.extend([0x40, 0, 64, PROTOCOL_UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = internet_checksum(&frame[14..34]);
        put(&mut frame, 24, sum);
    }
    frame.extend([0xc0, 1, 0x12, 0xb7]);
    frame.extend(udp.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// Returns the message that goes to the kernel for frames of one length, the last one perhaps shorter.
fn message(frames: &[Vec<u8>]) -> Vec<u8> {
    let waiting: Vec<u8> = frames
        .iter()
        .flat_map(|frame| [&NOTHING[..], frame].concat())
        .collect();
    let stride = HEADER_BYTES + frames[0].len();
    let (head, replaced) = head(&waiting[..stride], &waiting, stride).unwrap();
    let payloads = waiting.chunks(stride).flat_map(|piece| &piece[replaced..]);
    head[..replaced].iter().chain(payloads).copied().collect()
}

proptest! {
    /// Frames that are joined, carried unchanged and cut again are the frames that were sent.
    #[test]
    fn trains_arrive_as_their_packets(
        v6: bool,
        first: u16,
        size in 70usize..4200,
        count in 1usize..15,
        short in 1usize..70,
    ) {
        let payload: Vec<u8> = (0..size * count + short).map(|at| (at / 7) as u8).collect();
        let frames: Vec<_> = (0u16..)
            .zip(payload.chunks(size))
            .map(|(number, piece)| frame(v6, first.wrapping_add(number), piece))
            .collect();
        for (number, next) in frames.iter().enumerate().skip(1) {
            prop_assert!(follows(&frames[0], number, next));
            prop_assert!(!follows(&frames[0], number + 1, next) || v6);
        }
        let mut packets = Vec::new();
        finish(&mut message(&frames), &mut Vec::new(), &mut |packet| packets.push(packet.to_vec()))
            .unwrap();
        prop_assert_eq!(packets, frames);
    }

    /// A UDP checksum that a network card completes is right.
    #[test]
    fn sums_are_left_to_be_completed(v6: bool, payload in prop::collection::vec(any::<u8>(), 70..300)) {
        let mut message = message(&[frame(v6, 1, &payload)]);
        let udp = if v6 { 54 } else { 34 };
        let whole = message.split_off(HEADER_BYTES + udp);
        let mut sum = whole.clone();
        put(&mut sum, CHECKSUM, 0);
        let length = (UDP_LEN + payload.len()) as u16;
        let headers = Headers::find(&frame(v6, 1, &payload)).unwrap();
        let pseudo = headers.pseudo_sum(&message[HEADER_BYTES..], length);
        prop_assert_eq!(half(&whole, CHECKSUM), Some(pseudo));
    }

    #[test]
    fn any_frame_is_cut_or_refused(kind: u8, size in 0usize..70000, mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = cut(kind, size, &mut bytes, &mut |_| ());
        let _ = head(&bytes, &bytes, bytes.len().max(1));
        let _ = follows(&bytes, 1, &bytes);
    }
}

#[test]
fn strangers_do_not_follow() {
    let first = frame(false, 7, &[1; 100]);
    let next = frame(false, 8, &[2; 100]);
    assert!(follows(&first, 1, &next));
    // Address, class of service, port, checksum, fragment, lengths, protocol.
    for at in [0, 8, 15, 20, 16, 23, 33, 35, 37, 39, 41] {
        let mut bent = next.clone();
        bent[at] ^= 1;
        assert!(!follows(&first, 1, &bent), "byte {at}");
    }
    assert!(!follows(&first, 1, &frame(true, 8, &[2; 100])));
    assert!(!follows(&first, 700, &frame(false, 707, &[2; 100])));
}
