//! One descriptor that announces what a port waits for on a socket.
//!
//! Ports of several threads send on one socket, and one of them reads it. If the ports that only send watched the
//! socket itself, each incoming frame would wake them, again in each turn until the reader has taken it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// Names in the set: of the socket, and of all others.
const SOCKET: u64 = 0;
const BESIDE: u64 = 1;

/// An epoll set with the socket, and perhaps others.
#[derive(Debug)]
pub(crate) struct Announcer {
    epoll: OwnedFd,
    /// Events of the socket that are always announced.
    always: EventFlags,
    /// Whether room in the socket is announced, too.
    room_watched: bool,
}

impl Announcer {
    /// Makes an announcer for the port that reads the socket.
    pub(crate) fn of_input(socket: BorrowedFd<'_>) -> io::Result<Self> {
        Self::new(socket, EventFlags::IN)
    }

    /// Makes an announcer for a port that only sends: of room alone, and only [while it is watched
    /// for](Self::watch_room).
    pub(crate) fn of_room(socket: BorrowedFd<'_>) -> io::Result<Self> {
        Self::new(socket, EventFlags::empty())
    }

    fn new(socket: BorrowedFd<'_>, always: EventFlags) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, socket, EventData::new_u64(SOCKET), always)?;
        Ok(Self {
            epoll,
            always,
            room_watched: false,
        })
    }

    /// Announces input of another descriptor, too.
    pub(crate) fn add(&self, beside: BorrowedFd<'_>) -> io::Result<()> {
        let name = EventData::new_u64(BESIDE);
        Ok(epoll::add(&self.epoll, beside, name, EventFlags::IN)?)
    }

    /// Announces room in the socket as well, or no longer: for a port that watches this descriptor alone, which is
    /// never writable itself.
    pub(crate) fn watch_room(&mut self, socket: BorrowedFd<'_>, watch: bool) {
        if watch == self.room_watched {
            return;
        }
        let mut flags = self.always;
        flags.set(EventFlags::OUT, watch);
        if epoll::modify(&self.epoll, socket, EventData::new_u64(SOCKET), flags).is_ok() {
            self.room_watched = watch;
        }
    }
}

impl AsFd for Announcer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
    };

    use super::*;

    /// Returns a socket that never blocks, and its other end.
    fn sockets() -> [OwnedFd; 2] {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
        let (ours, theirs) = pair.unwrap();
        [ours, theirs]
    }

    fn is_ready(announcer: &Announcer) -> bool {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut watched = [PollFd::new(announcer, PollFlags::IN)];
        poll(&mut watched, Some(&at_once)).unwrap() > 0
    }

    fn say(socket: &OwnedFd) -> bool {
        send(socket, b"a frame", SendFlags::NOSIGNAL).is_ok()
    }

    fn hear(socket: &OwnedFd) -> bool {
        recv(socket, &mut [0; 16][..], RecvFlags::empty()).is_ok()
    }

    #[test]
    fn input_is_for_who_reads() {
        let [ours, theirs] = sockets();
        let reader = Announcer::of_input(ours.as_fd()).unwrap();
        let sender = Announcer::of_room(ours.as_fd()).unwrap();
        assert!(!is_ready(&reader));
        assert!(say(&theirs));
        assert!(is_ready(&reader));
        assert!(!is_ready(&sender), "there is room, but nobody waits for it");
    }

    #[test]
    fn room_is_for_who_waits_for_it() {
        let [ours, theirs] = sockets();
        let mut sender = Announcer::of_room(ours.as_fd()).unwrap();
        while say(&ours) {}
        sender.watch_room(ours.as_fd(), true);
        assert!(say(&theirs));
        assert!(!is_ready(&sender), "it is full");
        while hear(&theirs) {}
        assert!(is_ready(&sender));
        sender.watch_room(ours.as_fd(), false);
        assert!(!is_ready(&sender));
    }

    #[test]
    fn what_is_beside_is_announced_whatever_is_watched_for() {
        let ([ours, theirs], [beside, other]) = (sockets(), sockets());
        let mut reader = Announcer::of_input(ours.as_fd()).unwrap();
        reader.add(beside.as_fd()).unwrap();
        while say(&ours) {}
        reader.watch_room(ours.as_fd(), true);
        assert!(!is_ready(&reader));
        assert!(say(&other));
        assert!(is_ready(&reader));
        assert!(hear(&beside) && !is_ready(&reader));
        assert!(say(&theirs), "input is announced while room is watched for");
        assert!(is_ready(&reader));
    }
}
