//! Fuzz bodies over what this room keeps to itself, for `crates/fuzz`: work that a kernel left undone, and what a
//! tunnel's port takes in.

use crate::offload::{HEADER_BYTES, NOTHING, finish, follows, head};
pub use crate::tunnel::fuzz::ingress;

/// The longest segment, and the headers of each packet that it is cut into.
const PACKET_BYTES_MAX: usize = 1 << 17;

/// A frame as a packet socket gives it, its offload header in front: any numbers may stand there.
pub fn offload(input: &[u8]) {
    let mut bytes = input.to_vec();
    let mut payload = 0;
    finish(&mut bytes, &mut Vec::new(), &mut |packet| {
        assert!(packet.len() <= input.len());
        payload += packet.len();
        assert!(payload <= PACKET_BYTES_MAX * input.len().max(1));
    });
}

/// Two frames: joined as one message, which is cut as it arrives, they are the same two again.
pub fn train(first: &[u8], second: &[u8]) {
    if !follows(first, 1, second) {
        return;
    }
    let stride = HEADER_BYTES + first.len();
    let waiting = [&NOTHING[..], first, &NOTHING, second].concat();
    let (head, replaced) = head(&waiting, &waiting, stride).expect("a train has headers");
    let mut message = head[..replaced].to_vec();
    message.extend(&waiting[replaced..stride]);
    message.extend(&waiting[stride + replaced..]);
    let mut packets = Vec::new();
    let cut = finish(&mut message, &mut Vec::new(), &mut |packet| {
        packets.push(packet.to_vec())
    });
    cut.expect("what was joined can be cut");
    if second.len() <= first.len() {
        let same = |it: &[u8]| packets.iter().any(|packet| packet[42..] == it[42..]);
        assert!(same(first) && same(second));
    }
}
