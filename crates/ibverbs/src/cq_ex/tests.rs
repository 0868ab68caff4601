//! Extended completion queues, by the functions of the public structure.

use core::ptr::null_mut;

use vrdma_provider::daemon::CompletionRing;
use vrdma_provider::layout::Completion;

use super::*;
use crate::cq::poll_cq;
use crate::fake_daemon::TestDevice;

/// Calls a function of the public structure.
macro_rules! call {
    ($cq:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: a CQ that has it, between start and end where that is asked for.
        unsafe { (*$cq).$function.expect("it is offered")($cq $(, $argument)*) }
    };
}

/// The fields that a program asks for: the plain completion and both times.
const ALL: u64 = OFFERED;

fn init(wc_flags: u64) -> abi::CqInitAttrEx {
    abi::CqInitAttrEx {
        cqe: 8,
        cq_context: null_mut(),
        channel: null_mut(),
        comp_vector: 0,
        wc_flags,
        comp_mask: 0,
        flags: 0,
        parent_domain: null_mut(),
    }
}

fn create(device: &TestDevice, mut attr: abi::CqInitAttrEx) -> Result<*mut abi::CqEx> {
    // SAFETY: an open context and attributes.
    let cq = unsafe { create_cq_ex(device.context(), &raw mut attr) };
    if cq.is_null() {
        Err(Errno::last())
    } else {
        Ok(cq)
    }
}

fn filled(wr_ids: core::ops::Range<u64>) -> (TestDevice, *mut abi::CqEx, CompletionRing) {
    let device = TestDevice::open();
    let cq = create(&device, init(ALL)).expect("a queue");
    let mut ring = device.completions(cq.cast());
    for wr_id in wr_ids {
        ring.write(&entry(wr_id)).expect("room");
    }
    ring.publish();
    (device, cq, ring)
}

/// Returns a completion whose fields all differ, from its number on.
fn entry(wr_id: u64) -> Completion {
    let base = wr_id as u32 * 16;
    Completion {
        wr_id,
        qp_num: base + 1,
        opcode: base + 2,
        status: base + 3,
        byte_len: base + 4,
        imm: (base + 5).to_ne_bytes(),
        src_qp: base + 6,
        flags: base + 7,
        sl: 8,
        timestamp: u64::from(base) + 9,
        ..Completion::default()
    }
}

/// Checks that the current completion is this one.
fn check_current(cq: *mut abi::CqEx, wanted: &Completion) {
    // SAFETY: public fields, which the polling thread reads.
    let (wr_id, status) = unsafe { ((*cq).wr_id, (*cq).status) };
    assert_eq!((wr_id, status), (wanted.wr_id, wanted.status));
    assert_eq!(call!(cq, read_opcode), wanted.opcode);
    assert_eq!(call!(cq, read_byte_len), wanted.byte_len);
    assert_eq!(call!(cq, read_imm_data).to_ne_bytes(), wanted.imm);
    assert_eq!(call!(cq, read_qp_num), wanted.qp_num);
    assert_eq!(call!(cq, read_src_qp), wanted.src_qp);
    assert_eq!(call!(cq, read_wc_flags), wanted.flags);
    assert_eq!(u32::from(call!(cq, read_sl)), wanted.sl);
    assert_eq!(call!(cq, read_completion_ts), wanted.timestamp);
    assert_eq!((call!(cq, read_vendor_err), call!(cq, read_slid)), (0, 0));
    assert_eq!(call!(cq, read_dlid_path_bits), 0);
}

#[test]
fn each_completion_is_read_field_by_field() {
    let (_device, cq, _ring) = filled(1..4);
    assert_eq!(call!(cq, start_poll, null_mut()), 0);
    check_current(cq, &entry(1));
    for wr_id in 2..4 {
        assert_eq!(call!(cq, next_poll), 0);
        check_current(cq, &entry(wr_id));
    }
    assert_eq!(call!(cq, next_poll), libc::ENOENT);
    check_current(cq, &entry(3));
    call!(cq, end_poll);
}

/// Ending a poll without reading on leaves the rest, also to the plain way of polling.
#[test]
fn what_was_not_read_is_there_the_next_time() {
    let (_device, cq, _ring) = filled(1..4);
    assert_eq!(call!(cq, start_poll, null_mut()), 0);
    call!(cq, end_poll);
    let mut wc = abi::Wc::default();
    // SAFETY: a CQ, and room for one.
    assert_eq!(unsafe { poll_cq(cq.cast(), 1, &raw mut wc) }, 1);
    assert_eq!(wc.wr_id, 2);
    assert_eq!(call!(cq, start_poll, null_mut()), 0);
    check_current(cq, &entry(3));
    call!(cq, end_poll);
}

/// A start that finds nothing is not ended: the lock must be free.
#[test]
fn an_empty_queue_is_not_locked() {
    let (_device, cq, mut ring) = filled(0..0);
    // More polls than a poller makes before it gives its core away.
    for _ in 0..30 {
        assert_eq!(call!(cq, start_poll, null_mut()), libc::ENOENT);
    }
    let mut unknown = abi::PollCqAttr { comp_mask: 1 };
    assert_eq!(call!(cq, start_poll, &raw mut unknown), libc::EINVAL);
    ring.write(&entry(5)).expect("room");
    ring.publish();
    let mut known = abi::PollCqAttr { comp_mask: 0 };
    assert_eq!(call!(cq, start_poll, &raw mut known), 0);
    check_current(cq, &entry(5));
    call!(cq, end_poll);
}

#[test]
fn times_are_read_only_if_they_were_asked_for() {
    let device = TestDevice::open();
    let times = [WITH_TIMESTAMP, WITH_WALLCLOCK];
    for wanted in [0, times[0], times[1], times[0] | times[1]] {
        let cq = create(&device, init(wanted)).expect("a queue");
        // SAFETY: just made.
        let has = unsafe {
            [
                (*cq).read_completion_ts.is_some(),
                (*cq).read_completion_wallclock_ns.is_some(),
            ]
        };
        assert_eq!(has, times.map(|time| wanted & time != 0));
    }
}

#[test]
fn what_is_not_offered_is_refused() {
    let device = TestDevice::open();
    let unsupported = Errno(libc::EOPNOTSUPP);
    for (what, attr, wanted) in [
        ("a field of other adapters", init(1 << 8), unsupported),
        (
            "an unknown attribute",
            abi::CqInitAttrEx {
                comp_mask: 4,
                ..init(0)
            },
            Errno(libc::EINVAL),
        ),
        (
            "an unknown flag",
            abi::CqInitAttrEx {
                comp_mask: 1,
                flags: 4,
                ..init(0)
            },
            unsupported,
        ),
        (
            "another vector",
            abi::CqInitAttrEx {
                comp_vector: 1,
                ..init(0)
            },
            Errno(libc::EINVAL),
        ),
    ] {
        assert_eq!(create(&device, attr).err(), Some(wanted), "{what}");
    }
    let without_mask = abi::CqInitAttrEx {
        flags: 4,
        ..init(0)
    };
    assert!(create(&device, without_mask).is_ok(), "the mask says so");
}
