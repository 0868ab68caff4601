//! The end of the daemon, as programs that use connection management are told: each identifier with a device gets
//! RDMA_CM_EVENT_DEVICE_REMOVAL once, then `rdma_get_cm_event` fails once, and its channel falls silent.

use vrdma_provider::cm::EventKind;

use super::abi;
use super::channel::Arrivals;
use super::event::made_here;
use super::session;
use crate::errno::{Errno, Result};

/// Returns the next event of a channel whose daemon is gone; `None` if the channel is destroyed. The pointer is only
/// compared.
pub(super) fn next(
    channel: *mut abi::EventChannel,
    arrivals: &Arrivals,
) -> Result<Option<*mut abi::Event>> {
    let mut held = session::hold();
    if arrivals.is_destroyed() {
        return Ok(None);
    }
    let mut known = held.get()?.identifiers.values();
    let removed = known.find_map(|known| {
        // SAFETY: what is known is there as long as the session is held.
        let identifier = unsafe { &*known.0 };
        let public = identifier.public();
        let concerned = core::ptr::eq(channel, public.channel) && !public.verbs.is_null();
        let is_news = || !std::mem::replace(&mut identifier.own.lock().removed, true);
        (concerned && is_news()).then(|| {
            identifier.counts.hand_out();
            known.0
        })
    });
    drop(held);
    match removed {
        Some(id) => Ok(Some(made_here(id, EventKind::DeviceRemoval))),
        None => {
            arrivals.silence()?;
            Err(Errno(libc::EIO))
        }
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::{NonNull, null_mut};

    use super::super::channel::Channel;
    use super::super::event::{rdma_ack_cm_event, rdma_get_cm_event};
    use super::super::identifier::{Identifier, Kind};
    use super::*;

    /// Returns the kind of the event that the program gets, without waiting.
    fn get(channel: *mut abi::EventChannel) -> Result<u32> {
        let mut event = null_mut();
        // SAFETY: a channel, and a place for a pointer; its descriptor is ours to change.
        unsafe {
            libc::fcntl((*channel).fd, libc::F_SETFL, libc::O_NONBLOCK);
            if rdma_get_cm_event(channel, &raw mut event) != 0 {
                return Err(Errno::last());
            }
            let kind = (*event).event;
            rdma_ack_cm_event(event);
            Ok(kind)
        }
    }

    #[test]
    fn each_identifier_with_a_device_is_told_once() {
        let (_taken, theirs) = session::taken_over();
        let (pipe, writer) = rustix::pipe::pipe().expect("a pipe");
        let channel = Channel::over(pipe, 1);
        let mut held = session::hold();
        let session = held.get().expect("it is there");
        let kind = Kind {
            space: 0x106,
            qp_type: 2,
        };
        let ids =
            [7, 8, 9].map(|number| Identifier::insert(session, number, channel, null_mut(), kind));
        // SAFETY: identifiers that were just made; the pointer is only compared with null.
        unsafe { (*ids[0]).public().verbs = NonNull::dangling().as_ptr() };
        // SAFETY: as above.
        unsafe { (*ids[2]).public().verbs = NonNull::dangling().as_ptr() };
        drop(held);
        assert_eq!(get(channel), Err(Errno(libc::EAGAIN)));
        drop((theirs, writer));
        let removal = EventKind::DeviceRemoval as u32;
        assert_eq!((get(channel), get(channel)), (Ok(removal), Ok(removal)));
        assert_eq!(get(channel), Err(Errno(libc::EIO)));
        assert_eq!(get(channel), Err(Errno(libc::EAGAIN)), "it is silent");
    }

    #[test]
    fn nothing_is_told_at_a_channel_that_another_thread_destroyed() {
        let (_taken, theirs) = session::taken_over();
        drop(theirs);
        let (pipe, _writer) = rustix::pipe::pipe().expect("a pipe");
        let channel = Channel::over(pipe, 1);
        // SAFETY: a channel, which is then given up.
        let arrivals = unsafe {
            let arrivals = Channel::of(channel).expect("one").arrivals.clone();
            Channel::destroy(channel);
            arrivals
        };
        assert!(matches!(next(channel, &arrivals), Ok(None)));
    }
}
