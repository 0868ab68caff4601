//! The end of the daemon, as programs of connection management are told: each identifier with a device
//! gets RDMA_CM_EVENT_DEVICE_REMOVAL once, then `rdma_get_cm_event` fails once, and its channel falls silent.

use vrdma_provider::cm::EventKind;

use super::abi;
use super::channel::Channel;
use super::event::made_here;
use super::session;
use crate::errno::{Errno, Result};

/// The next event of a channel whose daemon is gone.
pub(super) fn next(channel: &Channel) -> Result<*mut abi::Event> {
    let mut held = session::hold();
    let mut known = held.get()?.identifiers.values();
    let removed = known.find_map(|known| {
        // SAFETY: what is known is there as long as the session is held.
        let identifier = unsafe { &*known.0 };
        let public = identifier.public();
        let concerned = channel.is(public.channel) && !public.verbs.is_null();
        let is_news = || !std::mem::replace(&mut identifier.own.lock().removed, true);
        (concerned && is_news()).then(|| {
            identifier.counts.hand_out();
            known.0
        })
    });
    drop(held);
    match removed {
        Some(id) => Ok(made_here(id, EventKind::DeviceRemoval)),
        None => {
            channel.silence()?;
            Err(Errno(libc::EIO))
        }
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::{NonNull, null_mut};

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use vrdma_provider::client::Connection;

    use super::super::event::{rdma_ack_cm_event, rdma_get_cm_event};
    use super::super::identifier::{Identifier, Kind};
    use super::*;

    /// What the program gets, without waiting: the kind of an event.
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
        let seqpacket = SocketType::SEQPACKET;
        let pair = socketpair(AddressFamily::UNIX, seqpacket, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.expect("a pair of sockets");
        let (pipe, writer) = rustix::pipe::pipe().expect("a pipe");
        session::take_over(Connection::new(ours));
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
}
