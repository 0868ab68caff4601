//! A daemon that ends under a program: each of the program's waits ends, too.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use vrdma_provider::message::qp_type::RC;

use super::*;
use crate::channel::{ibv_create_comp_channel, ibv_get_cq_event};
use crate::cq::{ibv_create_cq, poll_cq, req_notify_cq};
use crate::event::ibv_get_async_event;
use crate::fake_daemon::TestDevice;
use crate::fake_daemon::objects::TestQp;
use crate::recv::post_recv;
use crate::send::{RTS, post_send};

/// Polls until something comes, which takes no longer than noticing the daemon's end.
fn poll(cq: *mut abi::Cq, count: c_int) -> Vec<(u64, u32)> {
    const POLLS: usize = 5000;
    let mut found = vec![abi::Wc::default(); count as usize];
    for _ in 0..POLLS {
        // SAFETY: a CQ, and room for that many.
        let got = unsafe { poll_cq(cq, count, found.as_mut_ptr()) };
        if got > 0 {
            found.truncate(got as usize);
            return found.iter().map(|wc| (wc.wr_id, wc.status)).collect();
        }
    }
    Vec::new()
}

fn send(qp: &TestQp, wr_id: u64) {
    // SAFETY: numbers and pointers; a request without payload.
    unsafe {
        let mut wr: abi::SendWr = core::mem::zeroed();
        (wr.wr_id, wr.opcode) = (wr_id, 2);
        let mut bad = null_mut();
        assert_eq!(post_send(qp.qp, &raw mut wr, &raw mut bad), 0);
    }
}

fn receive(qp: &TestQp, wr_id: u64) {
    // SAFETY: as above.
    unsafe {
        let mut wr: abi::RecvWr = core::mem::zeroed();
        wr.wr_id = wr_id;
        let mut bad = null_mut();
        assert_eq!(post_recv(qp.qp, &raw mut wr, &raw mut bad), 0);
    }
}

/// Returns the CQ of a queue pair's sends and receives.
fn cq_of(qp: &TestQp) -> *mut abi::Cq {
    // SAFETY: a queue pair that is there.
    unsafe { (*qp.qp).send_cq }
}

#[test]
fn a_program_that_polls_gets_back_what_was_not_done() {
    let device = TestDevice::open();
    let qp = device.qp(device.pd(), RC, RTS);
    for wr_id in 1..=3 {
        send(&qp, wr_id);
    }
    receive(&qp, 10);
    assert_eq!(poll(cq_of(&qp), 8), [], "it is there, and busy");
    device.end_daemon();
    let mut ended = Vec::new();
    loop {
        match poll(cq_of(&qp), 2).as_slice() {
            [] => break,
            some => ended.extend_from_slice(some),
        }
    }
    let flushed = [1, 2, 3, 10].map(|wr_id| (wr_id, WR_FLUSH_ERR));
    assert_eq!(ended, flushed);
    send(&qp, 4);
    assert_eq!(poll(cq_of(&qp), 2), [(4, WR_FLUSH_ERR)], "what comes later");
}

#[test]
fn the_loss_is_an_event_once_and_its_descriptor_falls_silent() {
    let device = TestDevice::open();
    let context = device.context();
    // SAFETY: an open context, and an event to write; its descriptor is ours to change.
    let get = || unsafe {
        libc::fcntl((*context).async_fd, libc::F_SETFL, libc::O_NONBLOCK);
        let mut event: abi::AsyncEvent = core::mem::zeroed();
        match ibv_get_async_event(context, &raw mut event) {
            0 => Ok(event.event_type),
            _ => Err(Errno::last()),
        }
    };
    assert_eq!(get(), Err(Errno(libc::EAGAIN)));
    device.end_daemon();
    assert_eq!(get(), Ok(DEVICE_FATAL));
    assert_eq!(get(), Err(Errno(libc::EAGAIN)));
    assert!(device.lost.is_known());
}

#[test]
fn who_waits_for_a_completion_is_woken_to_poll() {
    let device = TestDevice::open();
    // SAFETY: an open context, a channel and a CQ of it, and places for pointers.
    unsafe {
        let channel = ibv_create_comp_channel(device.context());
        let armed = ibv_create_cq(device.context(), 4, null_mut(), channel, 0);
        ibv_create_cq(device.context(), 4, null_mut(), channel, 0);
        assert_eq!(req_notify_cq(armed, 0), 0);
        libc::fcntl((*channel).fd, libc::F_SETFL, libc::O_NONBLOCK);
        let get = || {
            let (mut cq, mut context) = (null_mut(), null_mut::<c_void>());
            match ibv_get_cq_event(channel, &raw mut cq, &raw mut context) {
                0 => Ok(cq),
                _ => Err(Errno::last()),
            }
        };
        assert_eq!(get(), Err(Errno(libc::EAGAIN)));
        device.end_daemon();
        assert_eq!(get(), Ok(armed));
        assert_eq!(get(), Err(Errno(libc::EIO)));
        assert_eq!(get(), Err(Errno(libc::EAGAIN)), "it is silent");
    }
}
