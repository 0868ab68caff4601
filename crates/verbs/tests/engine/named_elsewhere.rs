//! Regions whose addresses are not those of their memory: chosen ones (`ibv_reg_mr_iova`), offsets
//! from zero, and the whole address space (implicit on-demand paging).

use vrdma_verbs::object::{MrKind, MrSpec};
use vrdma_verbs::work::{SendOp, Status};

use crate::pair::node::{ALL, Mr};
use crate::pair::{Node, Pair};

const BYTES: u32 = 256;

/// Makes a region of [`BYTES`] bytes of memory that is named `start .. start + length`.
fn register(node: &mut Node, start: u64, length: u64) -> Mr {
    let region = node.memory.add(BYTES as usize);
    let spec = MrSpec {
        kind: MrKind::User,
        start,
        length,
        access: ALL,
        region: Some(region),
    };
    Mr {
        keys: node.hca.register(node.pd, spec).unwrap(),
        start,
        length: BYTES,
        region,
    }
}

/// Sends, writes and reads through regions of that shape on both sides.
fn travel(start: u64, length: u64) {
    let mut pair = Pair::rc();
    let [from, back] = [(); 2].map(|()| register(pair.a(), start, length));
    let [room, target] = [(); 2].map(|()| register(pair.b(), start, length));
    pair.a().memory.fill(from.region, 10, b"somewhere");
    pair.b().receive(9, &[room.part(20, 9)]);
    pair.a().send(1, SendOp::Send, &[from.part(10, 9)]);
    let op = SendOp::Write(target.remote(30));
    pair.a().send(2, op, &[from.part(10, 9)]);
    let op = SendOp::Read(target.remote(30));
    pair.a().send(3, op, &[back.part(40, 9)]);
    pair.run();
    let statuses: Vec<Status> = pair.a().sends().iter().map(|(_, status)| *status).collect();
    assert_eq!(statuses, [Status::Success; 3], "from {start:#x} on");
    assert_eq!(pair.nodes[1].bytes(&room)[20..29], *b"somewhere");
    assert_eq!(pair.nodes[1].bytes(&target)[30..39], *b"somewhere");
    assert_eq!(pair.nodes[0].bytes(&back)[40..49], *b"somewhere");
}

#[test]
fn any_address_may_be_the_first_one() {
    let length = u64::from(BYTES);
    for start in [0, 1, 0x7fff_1234_5678, 1 << 63, u64::MAX - length + 1] {
        travel(start, length);
    }
}

/// Memory refuses, page by page, what the region does not hold.
#[test]
fn the_whole_address_space_is_a_region() {
    travel(0, u64::MAX);
    let mut pair = Pair::rc();
    let everything = register(pair.b(), 0, u64::MAX);
    let data = pair.a().holding(&[1; 8]);
    let op = SendOp::Write(everything.remote(u64::from(BYTES)));
    pair.a().send(1, op, &[data.sge()]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::RemOp)]);
}

#[test]
fn an_offset_ends_where_the_region_ends() {
    for start in [0, 1 << 40] {
        let mut pair = Pair::rc();
        let target = register(pair.b(), start, u64::from(BYTES));
        let data = pair.a().holding(&[1; 8]);
        let last = target.remote(u64::from(BYTES) - 8);
        let beyond = target.remote(u64::from(BYTES) - 7);
        for (id, remote) in [(1, last), (2, beyond)] {
            pair.a().send(id, SendOp::Write(remote), &[data.sge()]);
        }
        pair.run();
        let ends = [(1, Status::Success), (2, Status::RemAccess)];
        assert_eq!(pair.a().sends(), ends);
    }
}
