//! Shared receive queues.

use core::ptr::null_mut;
use std::sync::Arc;

use rustix::io::Errno as Refusal;
use vrdma_provider::daemon::WorkRing;
use vrdma_provider::message::{CreateSrq, DestroySrq, ModifySrq, QuerySrq, SrqState};

use super::*;
use crate::errno::Errno;
use crate::fake_daemon::TestDevice;
use crate::fake_daemon::answers::NUMBER;
use crate::recv::tests::{Chain, fetch};

const WANTED: abi::SrqAttr = abi::SrqAttr {
    max_wr: 5,
    max_sge: 2,
    srq_limit: 3,
};

fn create(device: &TestDevice) -> (*mut abi::Srq, abi::SrqAttr) {
    let mut init = abi::SrqInitAttr {
        srq_context: 0x77 as *mut c_void,
        attr: WANTED,
    };
    // SAFETY: a domain of the device, and attributes.
    let srq = unsafe { ibv_create_srq(device.pd(), &raw mut init) };
    assert!(!srq.is_null());
    (srq, init.attr)
}

fn ring(device: &TestDevice) -> WorkRing {
    let daemon = device.daemon();
    let memory = daemon.srqs.last().expect("it was made");
    WorkRing::new(Arc::clone(&memory.area), memory.plan.ring)
}

#[test]
fn the_creator_is_told_what_it_got() {
    let device = TestDevice::open();
    let (srq, got) = create(&device);
    assert_eq!((got.max_wr, got.max_sge), (8, 2));
    let asked: CreateSrq = device.last();
    assert_eq!((asked.max_wr, asked.max_sge, asked.limit), (5, 2, 3));
    let mut number = 0;
    // SAFETY: just made.
    unsafe {
        assert_eq!(
            ((*srq).srq_context as usize, (*(*srq).pd).handle),
            (0x77, asked.pd)
        );
        assert_eq!(get_srq_num(srq, &raw mut number), 0);
        assert_eq!(number, NUMBER + (*srq).handle);
    }
}

#[test]
fn a_chain_ends_at_the_first_receive_that_is_refused() {
    let device = TestDevice::open();
    let (srq, got) = create(&device);
    let mut ring = ring(&device);
    let mut bad = null_mut();
    for (buffers, outcome, posted) in [
        (vec![2, 3, 1], libc::EINVAL, 1),
        (vec![1; got.max_wr as usize], libc::ENOMEM, 7),
    ] {
        let mut chain = Chain::new(10, &buffers);
        // SAFETY: a queue and a chain of requests.
        let posted_with = unsafe { post_srq_recv(srq, chain.first(), &raw mut bad) };
        assert_eq!(posted_with, outcome);
        assert_eq!(chain.position(bad), posted);
        for (number, count) in (10..).zip(&buffers[..posted]) {
            assert_eq!(fetch(&mut ring), Some((number, *count)));
        }
        assert_eq!(fetch(&mut ring), None);
    }
    assert_eq!(device.daemon().rung(), [], "a shared queue has no doorbell");
}

#[test]
fn the_limit_is_set_and_the_state_is_told() {
    let device = TestDevice::open();
    let (srq, mut attr) = create(&device);
    attr.srq_limit = 9;
    // SAFETY: a queue and attributes.
    unsafe {
        assert_eq!(ibv_modify_srq(srq, &raw mut attr, 2), 0);
        let asked: ModifySrq = device.last();
        assert_eq!((asked.srq, asked.mask, asked.limit), ((*srq).handle, 2, 9));
        let state = SrqState {
            max_wr: 8,
            max_sge: 2,
            limit: 4,
        };
        device.daemon().reply::<QuerySrq>(&state);
        assert_eq!(ibv_query_srq(srq, &raw mut attr), 0);
        assert_eq!((attr.max_wr, attr.max_sge, attr.srq_limit), (8, 2, 4));
        device.daemon().refuse::<ModifySrq>(Refusal::INVAL);
        assert_eq!(ibv_modify_srq(srq, &raw mut attr, 1), libc::EINVAL);
    }
}

#[test]
fn a_queue_in_use_is_not_destroyed() {
    let device = TestDevice::open();
    let (srq, _) = create(&device);
    device.daemon().refuse::<DestroySrq>(Refusal::BUSY);
    // SAFETY: a queue, which is still there after the refusal.
    unsafe {
        assert_eq!(ibv_destroy_srq(srq), libc::EBUSY);
        assert_eq!(ibv_destroy_srq(srq), 0);
    }
    assert_eq!(device.daemon().asked::<DestroySrq>().len(), 2);
}

/// The arguments of `ibv_create_srq_ex`, and its outcome.
#[test]
fn only_basic_queues_are_made() {
    const XRC: u32 = 1;
    let device = TestDevice::open();
    let pd = device.pd();
    let refused = |value| Err(Errno(value));
    for (mask, kind, pd, wanted) in [
        (PD, 0, pd, Ok(())),
        (PD | TYPE, 0, pd, Ok(())),
        (PD, XRC, pd, Ok(())),
        (PD | TYPE, XRC, pd, refused(libc::EOPNOTSUPP)),
        (PD | 1 << 2, 0, pd, refused(libc::EOPNOTSUPP)),
        (TYPE, 0, pd, refused(libc::EINVAL)),
        (PD, 0, null_mut(), refused(libc::EINVAL)),
    ] {
        // SAFETY: numbers and pointers.
        let mut init: abi::SrqInitAttrEx = unsafe { core::mem::zeroed() };
        (init.comp_mask, init.srq_type, init.pd) = (mask, kind, pd);
        init.attr = WANTED;
        // SAFETY: an open context and attributes.
        let srq = unsafe { create_srq_ex(device.context(), &raw mut init) };
        let outcome = if srq.is_null() {
            Err(Errno::last())
        } else {
            Ok(())
        };
        assert_eq!(outcome, wanted, "mask {mask} kind {kind}");
    }
}
