//! Packets of one message that arrive from an uplink: handled as one unit, like units of processes.

use std::sync::Arc;

use vrdma_driver::Pair;
use vrdma_driver::work::SendWork;
use vrdma_verbs::packet::{Frames, Link};
use vrdma_verbs::unit::Route;
use vrdma_verbs::{Path, Paths};
use vrdma_wire::{Mac, Packet};

/// Bytes of a packet at the pair's path MTU.
const MTU: usize = 1024;

/// Bytes of a message: eight packets and a part of a ninth.
const BYTES: usize = 8 * MTU + 100;

/// Paths that put every destination behind an uplink that takes long units.
struct Wire;

impl Paths for Wire {
    fn epoch(&self) -> u64 {
        0
    }

    fn path(&mut self, _: &Route) -> Path {
        Path::Wire(0)
    }

    fn train_bytes(&self) -> u32 {
        64 << 10
    }
}

/// The frames of a WRITE by `a` into `b`'s buffer.
fn frames(pair: &mut Pair) -> Vec<Vec<u8>> {
    let (addr, rkey) = pair.b.remote(0);
    let work = SendWork::write(1, addr, rkey).sge(pair.a.sge(0, BYTES as u32));
    let requester = &mut pair.fabric[pair.a.guest];
    requester.post_send(&pair.a.qp, &work).unwrap();
    let now = pair.fabric.clock().now();
    let requester = &mut pair.fabric[pair.a.guest];
    let space = Arc::clone(requester.dma());
    let memory = space.view();
    requester.device.poll(&memory, now);
    let link = Link {
        source: Mac([2; 6]),
        destination: Mac([4; 6]),
        vlan: None,
    };
    let mut frames = Vec::new();
    while let Some(request) = requester.device.next_request(&memory, now, &mut Wire) {
        let of_unit = Frames::of_request(&request, &link).unwrap();
        frames.extend(of_unit.to_vecs(&memory).unwrap());
    }
    frames
}

fn arrive(pair: &mut Pair, frames: &[Vec<u8>]) {
    let now = pair.fabric.clock().now();
    let responder = &mut pair.fabric[pair.b.guest];
    let space = Arc::clone(responder.dma());
    let memory = space.view();
    for frame in frames {
        let packet = Packet::parse(frame).unwrap();
        responder.device.receive(&memory, &packet, now);
    }
}

fn end_train(pair: &mut Pair) {
    let now = pair.fabric.clock().now();
    let responder = &mut pair.fabric[pair.b.guest];
    let space = Arc::clone(responder.dma());
    responder.device.end_train(&space.view(), now);
}

#[test]
fn packets_of_a_message_are_one_unit() {
    let mut pair = Pair::new();
    let sent = pair.bytes_of_a(0, BYTES);
    let before = pair.bytes_of_b(0, BYTES);
    let frames = frames(&mut pair);
    assert_eq!(frames.len(), BYTES.div_ceil(MTU));
    let (last, first) = frames.split_last().unwrap();
    arrive(&mut pair, first);
    assert!(pair.bytes_of_b(0, BYTES) == before, "kept so far");
    arrive(&mut pair, std::slice::from_ref(last));
    assert!(pair.bytes_of_b(0, BYTES) == sent);
}

#[test]
fn what_was_kept_is_taken_in_at_the_end_of_a_batch() {
    let mut pair = Pair::new();
    let sent = pair.bytes_of_a(0, BYTES);
    let frames = frames(&mut pair);
    arrive(&mut pair, &frames[..2]);
    end_train(&mut pair);
    assert!(pair.bytes_of_b(0, 2 * MTU) == sent[..2 * MTU]);
    arrive(&mut pair, &frames[2..]);
    end_train(&mut pair);
    assert!(pair.bytes_of_b(0, BYTES) == sent);
}
