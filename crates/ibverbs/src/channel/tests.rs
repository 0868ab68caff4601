//! Completion channels: which notification is told, and which call waits for which.

use core::ptr::null_mut;

use rustix::io::Errno as Refusal;
use vrdma_provider::message::CreateCq;

use super::*;
use crate::cq::{ibv_create_cq, ibv_destroy_cq};
use crate::fake_daemon::TestDevice;

fn channel(device: &TestDevice) -> *mut abi::CompChannel {
    // SAFETY: an open context.
    let channel = unsafe { ibv_create_comp_channel(device.context()) };
    assert!(!channel.is_null());
    channel
}

/// A CQ of a channel, and the cookie that the daemon knows it by.
fn cq(device: &TestDevice, channel: *mut abi::CompChannel, context: usize) -> (*mut abi::Cq, u64) {
    let context = context as *mut c_void;
    // SAFETY: an open context and a channel of it.
    let cq = unsafe { ibv_create_cq(device.context(), 4, context, channel, 0) };
    assert!(!cq.is_null());
    (cq, device.last::<CreateCq>().cookie)
}

/// Returns the next event, without waiting for one: the CQ and its context.
fn get(channel: *mut abi::CompChannel) -> Result<(*mut abi::Cq, usize)> {
    let (mut cq, mut context) = (null_mut(), null_mut());
    // SAFETY: a channel, and places for pointers; its descriptor is ours to change.
    unsafe {
        libc::fcntl((*channel).fd, libc::F_SETFL, libc::O_NONBLOCK);
        match ibv_get_cq_event(channel, &raw mut cq, &raw mut context) {
            0 => Ok((cq, context as usize)),
            _ => Err(Errno::last()),
        }
    }
}

const NONE: Result<(*mut abi::Cq, usize)> = Err(Errno(libc::EAGAIN));

#[test]
fn a_notification_names_its_queue_and_the_program_s_context() {
    let device = TestDevice::open();
    let channel = channel(&device);
    let ((first, of_first), (second, of_second)) =
        (cq(&device, channel, 11), cq(&device, channel, 22));
    assert_eq!(get(channel), NONE);
    for cookie in [of_second, of_first, of_second] {
        device.daemon().notify(0, cookie);
    }
    assert_eq!(get(channel), Ok((second, 22)));
    assert_eq!(get(channel), Ok((first, 11)));
    assert_eq!(get(channel), Ok((second, 22)));
    assert_eq!(get(channel), NONE);
}

#[test]
fn a_queue_is_created_with_the_handle_of_its_channel() {
    let device = TestDevice::open();
    let (first, second) = (channel(&device), channel(&device));
    cq(&device, second, 0);
    // SAFETY: channels of this library.
    let handles = unsafe { [Channel::handle(first), Channel::handle(second)] };
    assert_eq!(device.last::<CreateCq>().channel, handles[1]);
    assert_ne!(handles[0], handles[1]);
}

/// Cookies are never used twice, so a notification under way for a queue that is gone finds nothing.
#[test]
fn notifications_of_a_queue_that_is_gone_are_passed_over() {
    let device = TestDevice::open();
    let channel = channel(&device);
    let (gone, of_gone) = cq(&device, channel, 1);
    device.daemon().notify(0, of_gone);
    device.daemon().notify(0, of_gone);
    // SAFETY: given up.
    assert_eq!(unsafe { ibv_destroy_cq(gone) }, 0);
    let (next, of_next) = cq(&device, channel, 2);
    assert_ne!(of_next, of_gone);
    assert_eq!(get(channel), NONE);
    device.daemon().notify(0, of_gone);
    device.daemon().notify(0, 0);
    device.daemon().notify(0, of_next);
    assert_eq!(get(channel), Ok((next, 2)));
}

#[test]
fn a_queue_waits_until_its_notifications_are_acknowledged() {
    let device = TestDevice::open();
    let channel = channel(&device);
    let (cq, cookie) = cq(&device, channel, 1);
    for _ in 0..3 {
        device.daemon().notify(0, cookie);
        assert_eq!(get(channel), Ok((cq, 1)));
    }
    // SAFETY: as many as were handed out, before and while the other thread waits for the last.
    unsafe { ibv_ack_cq_events(cq, 2) };
    let address = cq as usize;
    let end = std::thread::spawn(move || {
        // SAFETY: given up.
        unsafe { ibv_destroy_cq(address as *mut abi::Cq) }
    });
    // The destruction asks the daemon first and then waits.
    while device
        .daemon()
        .asked::<vrdma_provider::message::DestroyCq>()
        .is_empty()
    {
        std::thread::yield_now();
    }
    assert!(!end.is_finished(), "one is not acknowledged");
    // SAFETY: the queue is there until this acknowledgement.
    unsafe { ibv_ack_cq_events(cq, 1) };
    assert_eq!(end.join().expect("no panic"), 0);
}

#[test]
fn a_channel_with_queues_is_not_destroyed() {
    let device = TestDevice::open();
    let channel = channel(&device);
    let (cq, _) = cq(&device, channel, 1);
    // SAFETY: a channel and its queue; both are there as long as they are used.
    unsafe {
        assert_eq!((*channel).refcnt, 1);
        assert_eq!(ibv_destroy_comp_channel(channel), libc::EBUSY);
        assert!(device.daemon().asked::<DestroyChannel>().is_empty());
        assert_eq!(ibv_destroy_cq(cq), 0);
        device.daemon().refuse::<DestroyChannel>(Refusal::BUSY);
        assert_eq!(ibv_destroy_comp_channel(channel), libc::EBUSY);
        assert_eq!(ibv_destroy_comp_channel(channel), 0);
    }
}

#[test]
fn without_a_daemon_waiting_ends() {
    let device = TestDevice::open();
    let channel = channel(&device);
    device.daemon().channels.clear();
    assert_eq!(get(channel), Err(Errno(libc::EIO)));
}
