//! Fast-register regions of kernels: filling, using, invalidating.

use vrdma_driver::object::{Mr, rights};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Directory, Pair};
use vrdma_pvrdma::abi::completion::wc_flag;

const LOCAL_INVALIDATE: u32 = 7;
const FAST_REGISTER: u32 = 8;
const MEMORY_MANAGEMENT: u32 = 6;
const REM_ACCESS: u32 = 10;

/// Address of the region in the guest's kernel.
const START: u64 = 0xffff_8880_0000_0000 + 0x123;

/// A region of `b` over its buffer's pages, filled by `b` itself.
fn filled(pair: &mut Pair, mr: &Mr, variant: u32) -> (u32, Directory) {
    let key = mr.rkey & !0xff | variant;
    let (b, vm) = (pair.b.clone(), &mut pair.fabric[1]);
    let directory = Directory::build(&mut vm.ram, b.buffer.pages[..16].to_vec());
    let length = 16 * 4096 - 0x123;
    let request = SendWork::fast_register(50, key, &directory, START, length, rights::ALL);
    vm.post_send(&b.qp, &request).unwrap();
    pair.fabric.pump();
    let done = pair.fabric[1].poll_cq(&b.send_cq).unwrap();
    assert_eq!((done.id, done.opcode, done.status), (50, FAST_REGISTER, 0));
    (key, directory)
}

#[test]
fn a_filled_region_serves_peers_until_it_is_invalidated() {
    let mut pair = Pair::kernel();
    let (b, pd) = (pair.b.clone(), pair.b.pd);
    let mr = pair.fabric[1].register_empty(pd, 16).unwrap();
    for variant in [1, 2, 255] {
        let (key, _) = filled(&mut pair, &mr, variant);
        let request = SendWork::write(1, START + 100, key).sge(pair.a.sge(variant as u64, 9000));
        pair.send(&request);
        assert_eq!(pair.sent()[0].status, 0);
        assert_eq!(
            pair.bytes_of_b(100, 9000),
            pair.bytes_of_a(variant as u64, 9000)
        );
        let invalidate = SendWork::local_invalidate(51, key);
        pair.fabric[1].post_send(&b.qp, &invalidate).unwrap();
        pair.fabric.pump();
        let done = pair.fabric[1].poll_cq(&b.send_cq).unwrap();
        assert_eq!((done.opcode, done.status), (LOCAL_INVALIDATE, 0));
    }
    let request = SendWork::write(1, START, mr.rkey & !0xff | 255).sge(pair.a.sge(0, 8));
    pair.send(&request);
    assert_eq!(pair.sent()[0].status, REM_ACCESS);
}

#[test]
fn an_older_variant_of_the_key_is_no_key() {
    let mut pair = Pair::kernel();
    let pd = pair.b.pd;
    let mr = pair.fabric[1].register_empty(pd, 16).unwrap();
    let (key, _) = filled(&mut pair, &mr, 7);
    let request = SendWork::write(1, START, key ^ 1).sge(pair.a.sge(0, 8));
    pair.send(&request);
    assert_eq!(pair.sent()[0].status, REM_ACCESS);
}

#[test]
fn a_peer_invalidates_with_its_send() {
    let mut pair = Pair::kernel();
    let (b, pd) = (pair.b.clone(), pair.b.pd);
    let mr = pair.fabric[1].register_empty(pd, 16).unwrap();
    let (key, _) = filled(&mut pair, &mr, 7);
    pair.receive(9, 0, 64);
    pair.send(&SendWork::send(1).invalidating(key).sge(pair.a.sge(0, 8)));
    assert_eq!(pair.sent()[0].status, 0);
    let entry = pair.fabric[1].poll_entry(&b.recv_cq).unwrap();
    assert_eq!(entry.wc_flags.get(), wc_flag::WITH_INVALIDATE);
    assert_eq!(u32::from_le_bytes(entry.imm), key);
    pair.send(&SendWork::write(1, START, key).sge(pair.a.sge(0, 8)));
    assert_eq!(pair.sent()[0].status, REM_ACCESS);
}

#[test]
fn filling_twice_is_an_error() {
    let mut pair = Pair::kernel();
    let b = pair.b.clone();
    let mr = pair.fabric[1].register_empty(b.pd, 16).unwrap();
    let (key, directory) = filled(&mut pair, &mr, 7);
    let again = SendWork::fast_register(52, key + 1, &directory, START, 4096, rights::ALL);
    pair.fabric[1].post_send(&b.qp, &again).unwrap();
    pair.fabric.pump();
    let done = pair.fabric[1].poll_cq(&b.send_cq).unwrap();
    assert_eq!((done.id, done.status), (52, MEMORY_MANAGEMENT));
}
