//! Messages that come with completions are in place when a program sees the completion, however it polls.

use vrdma_provider::layout::Buffer;
use vrdma_provider::message::access::LOCAL_WRITE;

use super::*;
use crate::abi::{CqEx, CqInitAttrEx};
use crate::cq_ex::create_cq_ex;
use crate::memory::ibv_dereg_mr;

/// A region, and completions whose messages are for it.
struct Scene {
    device: TestDevice,
    memory: Box<[u8; 64]>,
    mr: *mut abi::Mr,
}

impl Scene {
    fn new() -> Self {
        let device = TestDevice::open();
        let mut memory = Box::new([0; 64]);
        let mr = device.mr(device.pd(), &mut memory[..], LOCAL_WRITE);
        Self { device, memory, mr }
    }

    /// Returns a piece of the region.
    fn buffer(&self, offset: u64, length: u32) -> Buffer {
        // SAFETY: a region that is there when this is called.
        let (start, lkey) = unsafe { ((*self.mr).addr as u64, (*self.mr).lkey) };
        Buffer {
            addr: start + offset,
            length,
            lkey,
        }
    }

    fn show(&self, ring: &mut CompletionRing, qp_num: u32, buffers: &[Buffer], bytes: &[u8]) {
        let mut entry = completion(1, qp_num);
        let buffers = buffers.iter().copied();
        ring.enclose(&mut entry, buffers, bytes).expect("room");
        super::show(ring, &[entry]);
    }

    /// Returns what the program finds there, which the library wrote.
    fn found(&self, range: core::ops::Range<usize>) -> Vec<u8> {
        let start = core::hint::black_box(self.memory.as_ptr());
        // SAFETY: the box is alive.
        let at = |index: usize| unsafe { start.add(index).read_volatile() };
        range.map(at).collect()
    }
}

#[test]
fn it_is_in_its_buffers_after_poll_cq_and_not_before() {
    let scene = Scene::new();
    let cq = scene.device.cq(4);
    let mut ring = scene.device.completions(cq);
    let buffers = [scene.buffer(1, 3), scene.buffer(9, 2)];
    scene.show(&mut ring, 7, &buffers, b"abcde");
    assert_eq!(scene.found(0..12), [0; 12]);
    assert_eq!(poll(cq, 1), [1]);
    assert_eq!(scene.found(0..12), b"\0abc\0\0\0\0\0de\0");
}

#[test]
fn it_is_there_after_the_start_and_the_next_of_an_extended_poll() {
    let scene = Scene::new();
    // SAFETY: numbers and pointers, for which zero is a value.
    let mut init: CqInitAttrEx = unsafe { core::mem::zeroed() };
    init.cqe = 4;
    // SAFETY: an open context and attributes.
    let cq: *mut CqEx = unsafe { create_cq_ex(scene.device.context(), &raw mut init) };
    let mut ring = scene.device.completions(cq.cast());
    scene.show(&mut ring, 7, &[scene.buffer(0, 2)], b"ab");
    scene.show(&mut ring, 7, &[scene.buffer(2, 2)], b"cd");
    // SAFETY: a CQ with its functions, which are called in their order.
    unsafe {
        assert_eq!((*cq).start_poll.expect("offered")(cq, null_mut()), 0);
        assert_eq!(scene.found(0..4), b"ab\0\0");
        assert_eq!((*cq).next_poll.expect("offered")(cq), 0);
        assert_eq!(scene.found(0..4), b"abcd");
        (*cq).end_poll.expect("offered")(cq);
    }
}

#[test]
fn a_region_that_is_gone_or_was_filled_by_the_daemon_is_left_alone() {
    let scene = Scene::new();
    let cq = scene.device.cq(4);
    let mut ring = scene.device.completions(cq);
    scene.show(&mut ring, 7, &[scene.buffer(0, 2)], b"ab");
    let mut filled = Vec::new();
    ring.take_enclosed(|_| true, |_, bytes| filled.extend_from_slice(bytes));
    assert_eq!(filled, b"ab");
    scene.show(&mut ring, 7, &[scene.buffer(4, 2)], b"cd");
    // SAFETY: a region, given up.
    assert_eq!(unsafe { ibv_dereg_mr(scene.mr) }, 0);
    assert_eq!(poll(cq, 4), [1, 1]);
    assert_eq!(scene.found(0..8), [0; 8]);
}

#[test]
fn a_region_that_is_given_up_without_a_daemon_is_left_alone() {
    let scene = Scene::new();
    let cq = scene.device.cq(4);
    let mut ring = scene.device.completions(cq);
    scene.show(&mut ring, 7, &[scene.buffer(0, 2)], b"ab");
    scene.device.end_daemon();
    // SAFETY: a region, which is there after the refusal.
    assert_ne!(unsafe { ibv_dereg_mr(scene.mr) }, 0);
    assert_eq!(poll(cq, 4), [1]);
    assert_eq!(scene.found(0..2), [0; 2]);
}

#[test]
fn a_range_beyond_its_region_is_left_alone() {
    let scene = Scene::new();
    let cq = scene.device.cq(4);
    let mut ring = scene.device.completions(cq);
    let beyond = scene.buffer(62, 4);
    scene.show(&mut ring, 7, &[beyond, scene.buffer(0, 2)], b"xxxxab");
    assert_eq!(poll(cq, 1), [1]);
    assert_eq!(scene.found(60..64), [0; 4]);
    assert_eq!(scene.found(0..2), b"ab");
}

/// The memory of a destroyed queue pair may be the program's again.
#[test]
fn what_a_destroyed_queue_pair_received_stays_out_and_that_of_others_does_not() {
    let scene = Scene::new();
    let qp = scene.device.qp(scene.device.pd(), RC, RTS);
    // SAFETY: just made.
    let (cq, number) = unsafe { ((*qp.qp).recv_cq, (*qp.qp).qp_num) };
    let mut ring = scene.device.completions(cq);
    scene.show(&mut ring, number, &[scene.buffer(0, 2)], b"ab");
    scene.show(&mut ring, number + 1, &[scene.buffer(2, 2)], b"cd");
    // SAFETY: a queue pair, given up.
    assert_eq!(unsafe { ibv_destroy_qp(qp.qp) }, 0);
    assert_eq!(poll(cq, 4), [1]);
    assert_eq!(scene.found(0..4), b"\0\0cd");
}
