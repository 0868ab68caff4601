//! Fuzz bodies for private parts of this room, used by `crates/fuzz`: offloads that a kernel left to be done, and what
//! a tunnel's port takes in.

use crate::offload::{HEADER_BYTES, NOTHING, finish, follows, head};
pub use crate::tunnel::fuzz::ingress;

/// The longest segment, with the headers of each packet that it is cut into.
const PACKET_BYTES_MAX: usize = 1 << 17;

/// Finishes a frame as a packet socket returns it, with an offload header in front whose numbers may be anything.
pub fn offload(input: &[u8]) {
    let mut bytes = input.to_vec();
    let mut payload = 0;
    finish(&mut bytes, &mut Vec::new(), &mut |packet| {
        assert!(packet.len() <= input.len());
        payload += packet.len();
        assert!(payload <= PACKET_BYTES_MAX * input.len().max(1));
    });
}

/// Joins two frames as one message and cuts that as it arrives: the result is the same two frames.
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
