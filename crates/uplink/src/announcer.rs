//! One descriptor that says what somebody waits for of a socket.
//!
//! Ports of several threads send on one socket, and one of them reads it. Those that only send would be woken by
//! each frame that comes if they watched the socket itself, and again in each turn until the reader has taken it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// The socket's name in the set, and that of all else.
const SOCKET: u64 = 0;
const BESIDE: u64 = 1;

/// See the module.
#[derive(Debug)]
pub(crate) struct Announcer {
    epoll: OwnedFd,
    /// What it announces always.
    always: EventFlags,
    /// It announces room in the socket, too.
    room_watched: bool,
}

impl Announcer {
    /// For who reads the socket.
    pub(crate) fn of_input(socket: BorrowedFd<'_>) -> io::Result<Self> {
        Self::new(socket, EventFlags::IN)
    }

    /// For who only sends on it: room alone, and only [while it is watched for](Self::watch_room).
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

    /// Announces input of this one, too.
    pub(crate) fn add(&self, beside: BorrowedFd<'_>) -> io::Result<()> {
        let name = EventData::new_u64(BESIDE);
        Ok(epoll::add(&self.epoll, beside, name, EventFlags::IN)?)
    }

    /// Announces room in the socket as well, or no longer: for who watches the one descriptor, which is never
    /// writable itself.
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

    /// A socket that never blocks, and its other end.
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
