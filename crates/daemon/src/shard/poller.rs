//! The shard's epoll set.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use vrdma_switch::{PortId, UplinkId};

/// Events taken in one call; more wait for the next.
const BATCH: usize = 64;

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    /// A command waits.
    Wake,
    /// A client waits for being accepted.
    Listener(PortId),
    /// A client's socket.
    Connection(PortId),
    /// An uplink.
    Wire(UplinkId),
}

impl Key {
    const WAKE: u64 = u64::MAX;

    fn encode(self) -> epoll::EventData {
        epoll::EventData::new_u64(match self {
            Self::Wake => Self::WAKE,
            Self::Listener(port) => u64::from(port.0) << 2,
            Self::Connection(port) => u64::from(port.0) << 2 | 1,
            Self::Wire(uplink) => u64::from(uplink.0) << 2 | 2,
        })
    }

    fn decode(data: epoll::EventData) -> Self {
        let value = data.u64();
        let number = (value >> 2) as u32;
        match (value, value & 3) {
            (Self::WAKE, _) => Self::Wake,
            (_, 0) => Self::Listener(PortId(number)),
            (_, 1) => Self::Connection(PortId(number)),
            _ => Self::Wire(UplinkId(number)),
        }
    }
}

/// A descriptor that has something.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub(super) key: Key,
    pub(super) readable: bool,
    pub(super) writable: bool,
}

pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    /// An empty set, which may go to another thread before a poller is made of it.
    pub(super) fn open() -> std::io::Result<OwnedFd> {
        Ok(epoll::create(epoll::CreateFlags::CLOEXEC)?)
    }

    pub(super) fn new(epoll: OwnedFd) -> Self {
        Self {
            epoll,
            events: Vec::with_capacity(BATCH),
        }
    }

    /// Starts watching for input. A closed descriptor leaves the set by itself.
    pub(super) fn watch(&self, fd: impl AsFd, key: Key) {
        let added = epoll::add(&self.epoll, fd, key.encode(), epoll::EventFlags::IN);
        if let Err(error) = added {
            tracing::error!("cannot watch a socket: {error}");
        }
    }

    /// Watches for output too while there is some to write.
    pub(super) fn rewatch(&self, fd: impl AsFd, key: Key, wants_write: bool) {
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, wants_write);
        if let Err(error) = epoll::modify(&self.epoll, fd, key.encode(), flags) {
            tracing::error!("cannot watch a socket: {error}");
        }
    }

    /// Waits for events, for ever without a limit.
    pub(super) fn wait(&mut self, patience: Option<Duration>) -> Vec<Ready> {
        let timeout = patience.map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        self.events.clear();
        // An interrupted wait is a wait without events.
        let _ = epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            timeout.as_ref(),
        );
        self.events.iter().map(ready).collect()
    }
}

fn ready(event: &epoll::Event) -> Ready {
    let (flags, data) = (event.flags, event.data);
    Ready {
        key: Key::decode(data),
        readable: flags
            .intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR),
        writable: flags.contains(epoll::EventFlags::OUT),
    }
}
