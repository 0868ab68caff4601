//! Atomics.

use vrdma_driver::Pair;
use vrdma_driver::work::SendWork;

const COMPARE_SWAP: u32 = 3;
const FETCH_ADD: u32 = 4;

/// The buffers begin at an odd address; this offset is aligned.
const WORD: u64 = 8 - 0x123 % 8;

fn word(bytes: Vec<u8>) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

fn set_word(pair: &Pair, value: u64) {
    let ram = &pair.fabric[pair.b.guest].ram;
    pair.b.buffer.write(ram, WORD, &value.to_le_bytes());
}

#[test]
fn fetch_and_add_returns_the_old_value() {
    let mut pair = Pair::new();
    set_word(&pair, 40);
    let (addr, rkey) = pair.b.remote(WORD);
    let request = SendWork::fetch_add(1, addr, rkey, 2).sge(pair.a.sge(64, 8));
    pair.send(&request);
    let done = pair.sent()[0];
    assert_eq!((done.opcode, done.status, done.byte_len), (FETCH_ADD, 0, 8));
    assert_eq!(word(pair.bytes_of_a(64, 8)), 40);
    assert_eq!(word(pair.bytes_of_b(WORD, 8)), 42);
}

#[test]
fn fetch_and_add_wraps() {
    let mut pair = Pair::new();
    set_word(&pair, u64::MAX);
    let (addr, rkey) = pair.b.remote(WORD);
    let request = SendWork::fetch_add(1, addr, rkey, 2).sge(pair.a.sge(64, 8));
    pair.send(&request);
    assert_eq!(word(pair.bytes_of_b(WORD, 8)), 1);
}

#[test]
fn compare_and_swap_swaps_only_what_it_expects() {
    let mut pair = Pair::new();
    set_word(&pair, 5);
    for (expected, found, left) in [(4, 5, 5), (5, 5, 9), (5, 9, 9)] {
        let (addr, rkey) = pair.b.remote(WORD);
        let request = SendWork::compare_swap(1, addr, rkey, expected, 9);
        pair.send(&request.sge(pair.a.sge(64, 8)));
        let done = pair.sent()[0];
        assert_eq!((done.opcode, done.status), (COMPARE_SWAP, 0));
        assert_eq!(word(pair.bytes_of_a(64, 8)), found);
        assert_eq!(word(pair.bytes_of_b(WORD, 8)), left);
    }
}

#[test]
fn a_fence_waits_for_reads_and_atomics() {
    let mut pair = Pair::new();
    set_word(&pair, 1);
    let qp = pair.a.qp.clone();
    let (addr, rkey) = pair.b.remote(WORD);
    let add = SendWork::fetch_add(1, addr, rkey, 1).sge(pair.a.sge(64, 8));
    pair.fabric[0].post_send(&qp, &add).unwrap();
    let (addr, rkey) = pair.b.remote(1000);
    let write = SendWork::write(2, addr, rkey)
        .sge(pair.a.sge(64, 8))
        .fenced();
    pair.fabric[0].post_send(&qp, &write).unwrap();
    pair.fabric.pump();
    assert_eq!(
        word(pair.bytes_of_b(1000, 8)),
        1,
        "the write carries what the atomic fetched"
    );
    assert_eq!(pair.sent().len(), 2);
}

#[test]
fn more_atomics_than_may_be_in_flight() {
    let mut pair = Pair::new();
    set_word(&pair, 0);
    let qp = pair.a.qp.clone();
    for id in 0..60 {
        let (addr, rkey) = pair.b.remote(WORD);
        let request = SendWork::fetch_add(id, addr, rkey, 1);
        let request = request.sge(pair.a.sge(id * 8, 8));
        pair.fabric[0].post_send(&qp, &request).unwrap();
    }
    pair.fabric.pump();
    assert_eq!(pair.sent().len(), 60);
    assert_eq!(word(pair.bytes_of_b(WORD, 8)), 60);
    for id in 0..60 {
        assert_eq!(word(pair.bytes_of_a(id * 8, 8)), id);
    }
}
