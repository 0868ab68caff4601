//! RoCEv2 frames of any contents with a correct ICRC, as another host may send them.

use vrdma_verbs::packet::Train;
use vrdma_wire::registry::rebuild;
use vrdma_wire::{MAX_FRAME, Packet};

use super::memory::Region;
use super::node::{KINDS, Node};
use crate::input::Input;

/// Ethernet, IPv4 and UDP headers from the peer to us, up to the BTH.
const HEAD: [u8; 42] = [
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, // Ethernet
    0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1, // IPv4
    0xc0, 0, 0x12, 0xb7, 0, 0, 0, 0, // UDP
];

const ICRC_BYTES: usize = 4;

/// Offset of the queue pair in the BTH.
const QPN_AT: usize = 5;

/// Runs an input as a script of frames and of actions of the owner.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut node = Node::new();
    let mut train = Train::default();
    while !input.is_empty() {
        match input.below(4) {
            0 => node.live(&mut input),
            _ => receive(&mut node, &mut train, &mut input),
        }
    }
    end_train(&mut node, &mut train);
    node.check();
}

fn receive(node: &mut Node, train: &mut Train<Region>, input: &mut Input<'_>) {
    let (to, any) = (input.below(KINDS.len() + 1), input.block());
    let mut frame = framed(any);
    if let Some(qp) = node.qps.get(to)
        && let Some(place) = frame.get_mut(HEAD.len() + QPN_AT..HEAD.len() + QPN_AT + 3)
    {
        let qpn = node.hca.qpn(*qp).expect("it is there");
        place.copy_from_slice(&qpn.get().to_be_bytes()[1..]);
    }
    let mut buffer = [0; MAX_FRAME];
    let Ok(packet) = Packet::dissect(&frame) else {
        return;
    };
    let frame = rebuild(&packet, &mut buffer);
    let packet = Packet::parse(frame).expect("what the builder makes is a packet");
    take(node, train, &packet);
    node.drain();
}

/// A frame of these bytes behind headers with correct lengths.
fn framed(any: &[u8]) -> Vec<u8> {
    let mut frame = [&HEAD[..], any, &[0; ICRC_BYTES]].concat();
    let ip = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&ip.to_be_bytes());
    frame[38..40].copy_from_slice(&(ip - 20).to_be_bytes());
    let sum = vrdma_wire::internet_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Takes a packet as the owner of a wire does.
fn take(node: &mut Node, train: &mut Train<Region>, packet: &Packet<'_>) {
    let Some(arrival) = node.hca.decode(packet) else {
        return end_train(node, train);
    };
    if train.joins(&arrival) {
        if train.is_complete() {
            end_train(node, train);
        }
        return;
    }
    end_train(node, train);
    if !node.hca.begins_train(&arrival, train) {
        node.hca.receive(&arrival, &node.memory, node.now);
    }
}

fn end_train(node: &mut Node, train: &mut Train<Region>) {
    if let Some(arrival) = train.take() {
        node.hca.receive(&arrival, &node.memory, node.now);
    }
}
