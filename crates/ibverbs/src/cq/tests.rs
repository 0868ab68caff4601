//! Completion queues: what polling returns, in which order, and what happens to it when objects change.

mod enclosed;

use core::ptr::null_mut;

use proptest::prelude::*;
use rustix::io::Errno as Refusal;
use vrdma_provider::daemon::CompletionRing;
use vrdma_provider::layout::Completion;
use vrdma_provider::message::qp_type::RC;

use super::*;
use crate::fake_daemon::TestDevice;
use crate::qp_state::{ibv_destroy_qp, ibv_modify_qp};
use crate::send::RTS;

/// Returns a completion that is recognised by its number.
fn completion(wr_id: u64, qp_num: u32) -> Completion {
    Completion {
        wr_id,
        qp_num,
        ..Completion::default()
    }
}

fn show(ring: &mut CompletionRing, entries: &[Completion]) {
    for entry in entries {
        ring.write(entry).expect("room");
    }
    ring.publish();
}

/// Polls for at most `count` completions; returns their numbers.
fn poll(cq: *mut abi::Cq, count: c_int) -> Vec<u64> {
    let mut found = vec![abi::Wc::default(); count.max(0) as usize];
    // SAFETY: a CQ, and room for that many.
    let got = unsafe { poll_cq(cq, count, found.as_mut_ptr()) };
    found.truncate(usize::try_from(got).expect("no error"));
    found.iter().map(|wc| wc.wr_id).collect()
}

#[test]
fn a_completion_is_told_field_by_field() {
    let device = TestDevice::open();
    let cq = device.cq(4);
    let entry = Completion {
        wr_id: 0x0102_0304_0506_0708,
        qp_num: 0x11,
        opcode: 0x81,
        status: 12,
        byte_len: 0x2233,
        imm: [1, 2, 3, 4],
        src_qp: 0x44,
        flags: 3,
        sl: 10,
        timestamp: 99,
        ..Completion::default()
    };
    show(&mut device.completions(cq), &[entry]);
    let mut wc = abi::Wc::default();
    // SAFETY: a CQ, and room for one.
    assert_eq!(unsafe { poll_cq(cq, 1, &raw mut wc) }, 1);
    assert_eq!((wc.wr_id, wc.qp_num), (0x0102_0304_0506_0708, 0x11));
    assert_eq!((wc.status, wc.opcode, wc.byte_len), (12, 0x81, 0x2233));
    assert_eq!(wc.imm_data, u32::from_ne_bytes([1, 2, 3, 4]));
    assert_eq!((wc.src_qp, wc.wc_flags, wc.sl), (0x44, 3, 10));
    assert_eq!((wc.pkey_index, wc.slid, wc.dlid_path_bits), (0, 0, 0));
}

#[test]
fn polling_gives_no_more_than_was_asked_for() {
    let device = TestDevice::open();
    let cq = device.cq(8);
    let entries: Vec<_> = (0..5).map(|number| completion(number, 1)).collect();
    show(&mut device.completions(cq), &entries);
    assert_eq!(poll(cq, 0), [0u64; 0]);
    assert_eq!(poll(cq, -1), [0u64; 0]);
    assert_eq!(poll(cq, 2), [0, 1]);
    assert_eq!(poll(cq, 9), [2, 3, 4]);
    assert_eq!(poll(cq, 9), [0u64; 0]);
}

#[test]
fn the_creator_is_told_how_many_entries_there_are() {
    let device = TestDevice::open();
    let context = 0x55 as *mut c_void;
    // SAFETY: an open context, no channel.
    let cq = unsafe { ibv_create_cq(device.context(), 5, context, null_mut(), 0) };
    let asked: CreateCq = device.last();
    assert_eq!((asked.entries, asked.channel), (5, NO_CHANNEL));
    // SAFETY: just made.
    unsafe { assert_eq!(((*cq).cqe, (*cq).cq_context), (8, context)) };
    for (cqe, vector) in [(5, 1), (5, -1)] {
        // SAFETY: as above.
        let cq = unsafe { ibv_create_cq(device.context(), cqe, null_mut(), null_mut(), vector) };
        assert!(cq.is_null() && Errno::last() == Errno(libc::EINVAL));
    }
}

#[test]
fn asking_for_more_notifications_replaces_asking_for_less() {
    let device = TestDevice::open();
    let cq = device.cq(4);
    let ring = device.completions(cq);
    // SAFETY: a CQ.
    let arm = |solicited_only| assert_eq!(unsafe { req_notify_cq(cq, solicited_only) }, 0);
    arm(1);
    assert!(!ring.take_armed(false) && ring.take_armed(true));
    arm(1);
    arm(0);
    arm(1);
    assert!(ring.take_armed(false));
    assert!(!ring.take_armed(true), "each arming is taken once");
}

/// The daemon moves the entries and the arming that it knows of; the library keeps the rest.
#[test]
fn a_resized_queue_goes_on_where_the_old_one_was() {
    let device = TestDevice::open();
    let pd = device.pd();
    let qp = device.qp(pd, RC, RTS);
    // SAFETY: just made.
    let (cq, number) = unsafe { ((*qp.qp).send_cq, (*qp.qp).qp_num) };
    let mut old = device.completions(cq);
    show(
        &mut old,
        &[completion(1, 7), completion(2, number), completion(3, 7)],
    );
    // Completions of the queue's other queue pairs are taken out of the ring with it.
    // SAFETY: a queue pair, given up.
    assert_eq!(unsafe { ibv_destroy_qp(qp.qp) }, 0);
    // SAFETY: a CQ.
    unsafe {
        assert_eq!(req_notify_cq(cq, 0), 0);
        assert_eq!(ibv_resize_cq(cq, 100), 0);
        assert_eq!((*cq).cqe, 128);
    }
    let mut fresh = device.completions(cq);
    show(&mut fresh, &[completion(4, 7)]);
    assert!(fresh.take_armed(false), "the arming came along");
    assert_eq!(poll(cq, 9), [1, 3, 4]);
}

#[test]
fn a_queue_that_cannot_be_resized_stays_as_it_is() {
    let device = TestDevice::open();
    let cq = device.cq(4);
    show(&mut device.completions(cq), &[completion(1, 7)]);
    device.daemon().refuse::<ResizeCq>(Refusal::INVAL);
    // SAFETY: a CQ.
    unsafe {
        assert_eq!(ibv_resize_cq(cq, 2), libc::EINVAL);
        assert_eq!(ibv_resize_cq(cq, -1), libc::EINVAL);
        assert_eq!((*cq).cqe, 4);
    }
    assert_eq!(device.daemon().asked::<ResizeCq>().len(), 1);
    assert_eq!(poll(cq, 9), [1]);
}

#[test]
fn a_queue_in_use_is_not_destroyed() {
    let device = TestDevice::open();
    let cq = device.cq(4);
    device.daemon().refuse::<DestroyCq>(Refusal::BUSY);
    // SAFETY: a CQ, which is there after the refusal.
    unsafe {
        assert_eq!(ibv_destroy_cq(cq), libc::EBUSY);
        show(&mut device.completions(cq), &[completion(1, 7)]);
        assert_eq!(poll(cq, 1), [1]);
        assert_eq!(ibv_destroy_cq(cq), 0);
    }
}

/// A step in the life of a completion queue.
#[derive(Clone, Debug)]
enum Step {
    /// Shows this many completions of each of two queue pairs, in turn.
    Show(u8),
    Poll(u8),
    /// The queue pair is reset: its completions are gone.
    Reset(bool),
    Resize,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..6u8).prop_map(Step::Show),
        4 => (0..8u8).prop_map(Step::Poll),
        1 => any::<bool>().prop_map(Step::Reset),
        1 => Just(Step::Resize),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Compares with a plain list: nothing is lost, doubled or out of order.
    #[test]
    fn completions_come_once_and_in_order(steps in prop::collection::vec(step(), 1..60)) {
        let device = TestDevice::open();
        let pd = device.pd();
        let (first, second) = (device.qp(pd, RC, RTS), device.qp(pd, RC, RTS));
        // SAFETY: made above.
        let (cq, numbers) = unsafe {
            (*second.qp).send_cq = (*first.qp).send_cq;
            (*second.qp).recv_cq = (*first.qp).send_cq;
            ((*first.qp).send_cq, [(*first.qp).qp_num, (*second.qp).qp_num])
        };
        let mut ring = device.completions(cq);
        let (mut model, mut next) = (Vec::<Completion>::new(), 0);
        for step in steps {
            match step {
                Step::Show(count) => {
                    for _ in 0..count {
                        let entry = completion(next, numbers[next as usize % 2]);
                        if ring.write(&entry).is_ok() {
                            model.push(entry);
                        }
                        next += 1;
                    }
                    ring.publish();
                }
                Step::Poll(count) => {
                    let found = poll(cq, count.into());
                    let wanted = model.drain(..model.len().min(count.into()));
                    prop_assert_eq!(found, wanted.map(|entry| entry.wr_id).collect::<Vec<_>>());
                }
                Step::Reset(is_first) => {
                    let (qp, number) = if is_first { (first.qp, numbers[0]) } else { (second.qp, numbers[1]) };
                    let mut attr = abi::QpAttr::default();
                    // SAFETY: a queue pair and attributes.
                    prop_assert_eq!(unsafe { ibv_modify_qp(qp, &raw mut attr, 1) }, 0);
                    model.retain(|entry| entry.qp_num != number);
                }
                Step::Resize => {
                    // SAFETY: a CQ.
                    prop_assert_eq!(unsafe { ibv_resize_cq(cq, 16) }, 0);
                    let mut old = std::mem::replace(&mut ring, device.completions(cq));
                    old.unload(&mut ring).expect("sane indices");
                }
            }
        }
        prop_assert_eq!(poll(cq, 99), model.iter().map(|entry| entry.wr_id).collect::<Vec<_>>());
    }
}
