//! Short messages that go with their completions, for an owner that puts them in place.

use vrdma_verbs::attr::Access;
use vrdma_verbs::work::{SendOp, Sge, Status};
use vrdma_verbs::{ENCLOSED_HEAD, ENCLOSED_MAX, ENCLOSED_PIECE};
use vrdma_wire::Lkey;

use crate::pair::Pair;
use crate::pair::node::{ALL, Mr};

const ROOM: u32 = 1 << 16;

/// Makes a region of node 1 that its owner fills.
fn own(pair: &mut Pair, length: u32) -> Mr {
    let mr = pair.b().register(length, Access::LOCAL_WRITE);
    pair.b().memory.leave_to_owner(mr.region);
    mr
}

/// Gives a pair room for messages in its completion queue.
fn with_room(mut pair: Pair, room: u32) -> Pair {
    let cq = pair.b().recv_cq;
    pair.b().hca.set_enclosing_room(cq, room);
    pair
}

fn send(pair: &mut Pair, data: &[u8], to: &[Sge]) {
    let from = pair.a().holding(data);
    pair.b().receive(9, to);
    pair.a().send(1, SendOp::Send, &[from.sge()]);
    pair.run();
}

#[test]
fn a_short_message_goes_with_its_completion_and_nothing_is_stored() {
    let mut pair = with_room(Pair::rc(), ROOM);
    let (first, second) = (own(&mut pair, 4), own(&mut pair, 64));
    send(&mut pair, b"hello", &[first.sge(), second.part(8, 50)]);
    assert_eq!(pair.b().receives(), [(9, Status::Success)]);
    assert_eq!(pair.b().received[0].byte_len, 5);
    let buffers = vec![first.sge(), second.part(8, 1)];
    assert_eq!(pair.b().enclosed, [(buffers, b"hello".to_vec())]);
    assert_eq!(pair.nodes[1].bytes(&first), [0; 4]);
}

#[test]
fn a_datagram_goes_with_its_header() {
    let mut pair = with_room(Pair::ud(), ROOM);
    let to = own(&mut pair, 64);
    let from = pair.a().holding(b"hello");
    let name = pair.b().name();
    pair.b().receive(9, &[to.sge()]);
    pair.a().send_to(1, name, &[from.sge()]);
    pair.run();
    let (buffers, bytes) = &pair.nodes[1].enclosed[0];
    assert_eq!(buffers, &[to.part(0, 45)]);
    assert_eq!((&bytes[20..21], &bytes[40..]), (&[0x45][..], &b"hello"[..]));
}

#[test]
fn all_else_is_stored() {
    let long = vec![7; ENCLOSED_MAX as usize + 1];
    let needed = ENCLOSED_HEAD + ENCLOSED_PIECE + 5;
    for (room, data) in [(0, &b"hello"[..]), (needed - 1, b"hello"), (ROOM, &long)] {
        let mut pair = with_room(Pair::rc(), room);
        let to = own(&mut pair, 8192);
        send(&mut pair, data, &[to.sge()]);
        assert_eq!(pair.b().receives(), [(9, Status::Success)]);
        assert_eq!(pair.b().enclosed, []);
        assert_eq!(&pair.nodes[1].bytes(&to)[..data.len()], data);
    }
    let mut pair = with_room(Pair::rc(), ROOM);
    let (left, stored) = (own(&mut pair, 2), pair.b().register(64, ALL));
    send(&mut pair, b"hello", &[left.sge(), stored.sge()]);
    assert_eq!(
        pair.b().enclosed,
        [],
        "one of the buffers is for others, too"
    );
    assert_eq!(&pair.nodes[1].bytes(&stored)[..3], b"llo");
}

#[test]
fn what_goes_along_takes_room_until_it_is_given_again() {
    let needed = ENCLOSED_HEAD + ENCLOSED_PIECE + 5;
    let mut pair = with_room(Pair::rc(), needed);
    let to = own(&mut pair, 64);
    send(&mut pair, b"hello", &[to.sge()]);
    send(&mut pair, b"world", &[to.sge()]);
    assert_eq!(pair.b().enclosed.len(), 1);
    assert_eq!(&pair.nodes[1].bytes(&to)[..5], b"world");
    let mut pair = with_room(pair, needed);
    send(&mut pair, b"again", &[to.sge()]);
    assert_eq!(pair.b().enclosed.len(), 2);
}

#[test]
fn a_buffer_without_right_or_bounds_fails_its_receive_as_ever() {
    let mut pair = with_room(Pair::rc(), ROOM);
    let to = own(&mut pair, 64);
    let strange = Sge {
        lkey: Lkey(to.keys.lkey.0 ^ 1),
        ..to.sge()
    };
    send(&mut pair, b"hello", &[strange]);
    assert_eq!(pair.b().receives(), [(9, Status::LocProt)]);
    assert_eq!(pair.b().enclosed, []);
}

#[test]
fn a_write_is_stored_at_once() {
    let mut pair = with_room(Pair::rc(), ROOM);
    let to = pair.b().register(64, ALL);
    pair.b().memory.leave_to_owner(to.region);
    let from = pair.a().holding(b"hello");
    pair.a().send(1, SendOp::Write(to.remote(0)), &[from.sge()]);
    pair.run();
    assert_eq!(&pair.nodes[1].bytes(&to)[..5], b"hello");
}

#[test]
fn what_its_owner_left_is_stored_for_a_region_that_goes() {
    let mut pair = Pair::rc();
    let (here, gone) = (own(&mut pair, 64), own(&mut pair, 64));
    pair.b().hca.deregister(gone.keys.id).unwrap();
    let sges = [here.part(0, 2), gone.part(0, 2), here.part(8, 1)];
    let node = &pair.nodes[1];
    let [here_id, gone_id] = [here, gone].map(|mr| mr.keys.id);
    assert_eq!(node.hca.lkey_of(here_id), Some(here.keys.lkey));
    assert_eq!(node.hca.named_by(here.keys.lkey), Some(here_id));
    assert_eq!(node.hca.lkey_of(gone_id), None);
    assert_eq!(
        node.hca.cqs_beside(here.keys.id),
        [node.send_cq, node.recv_cq]
    );
    node.hca
        .put_in_place(here.keys.id, &sges, b"abcde", &node.memory);
    let bytes = node.bytes(&here);
    assert_eq!((&bytes[..3], &bytes[8..10]), (&b"ab\0"[..], &b"e\0"[..]));
}
