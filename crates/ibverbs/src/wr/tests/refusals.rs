//! Requests that are refused between start and complete leave nothing behind.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;

use vrdma_provider::message::access::LOCAL_WRITE;
use vrdma_provider::message::qp_type::{RC, UC, UD};

use crate::abi;
use crate::fake_daemon::TestDevice;
use crate::fake_daemon::objects::{CAPACITY, TestQp};
use crate::send::RTS;

/// A call that a program makes between start and complete.
type Step = fn(&abi::QpEx, *mut abi::QpEx);

/// Starts, does the steps and completes.
fn build(qp: &TestQp, steps: &[Step]) -> c_int {
    let qp: *mut abi::QpEx = qp.qp.cast();
    // SAFETY: it is there.
    let ex = unsafe { &*qp };
    call!(ex.wr_start(qp));
    for step in steps {
        step(ex, qp);
    }
    call!(ex.wr_complete(qp))
}

const SEND: Step = |ex, qp| call!(ex.wr_send(qp));
const READ: Step = |ex, qp| call!(ex.wr_rdma_read(qp, 1, 2));
const NO_PATH: Step = |ex, qp| call!(ex.wr_set_ud_addr(qp, null_mut(), 1, 2));
const NO_WINDOW: Step = |ex, qp| {
    // SAFETY: numbers and a pointer.
    let info: abi::MwBindInfo = unsafe { core::mem::zeroed() };
    call!(ex.wr_bind_mw(qp, null_mut(), 1, &raw const info));
};
const TOO_MANY: Step = |ex, qp| {
    let list = [abi::Sge::default(); CAPACITY.max_send_sge as usize + 1];
    call!(ex.wr_set_sge_list(qp, list.len(), list.as_ptr()));
};
const FAR_TOO_MANY: Step = |ex, qp| {
    let list = [abi::Sge::default(); 100];
    call!(ex.wr_set_sge_list(qp, list.len(), list.as_ptr()));
};
const TOO_LONG: Step = |ex, qp| {
    let bytes = [0u8; CAPACITY.max_inline_data as usize + 1];
    call!(ex.wr_set_inline_data(qp, bytes.as_ptr() as *mut c_void, bytes.len()));
};
/// Both lengths together come to 0, if they are added without a check.
const OVERFLOWING: Step = |ex, qp| {
    let bytes = [0u8; 8];
    let piece = |length| abi::DataBuf {
        addr: bytes.as_ptr() as *mut c_void,
        length,
    };
    let list = [piece(8), piece(usize::MAX - 7)];
    call!(ex.wr_set_inline_data_list(qp, list.len(), list.as_ptr()));
};

#[test]
fn one_bad_request_refuses_the_whole_chain() {
    let device = TestDevice::open();
    let pd = device.pd();
    let cases: [(&str, c_uint, &[Step]); 7] = [
        ("an operation of another service", UC, &[SEND, READ, SEND]),
        ("a datagram without a path", UD, &[SEND, NO_PATH, SEND]),
        ("no window", RC, &[SEND, NO_WINDOW, SEND]),
        ("too many buffers", RC, &[SEND, TOO_MANY, SEND]),
        ("far too many buffers", RC, &[SEND, FAR_TOO_MANY, SEND]),
        ("too long for inline", RC, &[SEND, TOO_LONG, SEND]),
        ("a length beyond all", RC, &[SEND, OVERFLOWING, SEND]),
    ];
    for (what, service, steps) in cases {
        let mut qp = device.qp(pd, service, RTS);
        assert_eq!(build(&qp, steps), libc::EINVAL, "{what}");
        assert_eq!(qp.carry_out(), 0, "{what}");
        assert_eq!(device.daemon().rung(), [], "{what}");
        assert_eq!(build(&qp, &[SEND]), 0, "{what}: the next chain is good");
        assert_eq!(qp.carry_out(), 1, "{what}");
        device.daemon().rung();
    }
}

#[test]
fn a_path_without_a_request_is_refused() {
    let device = TestDevice::open();
    let qp = device.qp(device.pd(), UD, RTS);
    assert_eq!(build(&qp, &[NO_PATH]), libc::EINVAL);
}

#[test]
fn a_chain_that_does_not_fit_is_refused_as_a_whole() {
    let device = TestDevice::open();
    let mut qp = device.qp(device.pd(), RC, RTS);
    let slots = CAPACITY.max_send_wr as usize;
    assert_eq!(build(&qp, &[SEND; 5]), 0);
    assert_eq!(build(&qp, &vec![SEND; slots - 4]), libc::ENOMEM);
    assert_eq!(build(&qp, &vec![SEND; slots - 5]), 0);
    assert_eq!(qp.carry_out() as usize, slots);
}

#[test]
fn an_aborted_chain_leaves_nothing_and_frees_the_queue() {
    let device = TestDevice::open();
    let mut qp = device.qp(device.pd(), RC, RTS);
    let ex: *mut abi::QpEx = qp.qp.cast();
    // SAFETY: it is there.
    let public = unsafe { &*ex };
    call!(public.wr_start(ex));
    SEND(public, ex);
    call!(public.wr_abort(ex));
    assert_eq!(qp.carry_out(), 0);
    assert_eq!(build(&qp, &[SEND]), 0);
    assert_eq!(qp.carry_out(), 1);
}

#[test]
fn nothing_is_built_before_the_state_ready_to_send() {
    let device = TestDevice::open();
    let pd = device.pd();
    for state in 0..RTS {
        let mut qp = device.qp(pd, RC, state);
        assert_eq!(build(&qp, &[SEND]), libc::EINVAL);
        assert_eq!(qp.carry_out(), 0);
    }
}

/// The call copies inline data: the program may write its memory again when it returns.
#[test]
fn inline_data_are_as_they_were_at_the_call() {
    let device = TestDevice::open();
    let pd = device.pd();
    let mut qp = device.qp(pd, RC, RTS);
    let mut registered = [1u8; 16];
    device.mr(pd, &mut registered, LOCAL_WRITE);
    let ex: *mut abi::QpEx = qp.qp.cast();
    let mut bytes = [7u8; 16];
    // SAFETY: it is there.
    let public = unsafe { &*ex };
    call!(public.wr_start(ex));
    for fill in [7, 8] {
        bytes.fill(fill);
        SEND(public, ex);
        let (start, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        call!(public.wr_set_inline_data(ex, start, length));
    }
    bytes.fill(9);
    assert_eq!(call!(public.wr_complete(ex)), 0);
    for fill in [7, 8] {
        let copied = qp.fetch().expect("it was posted").copied;
        assert_eq!(copied, Some(vec![fill; 16]));
    }
}
