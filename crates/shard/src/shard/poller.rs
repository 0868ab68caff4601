//! The shard's epoll set.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use vrdma_switch::{MAX_PORTS, PortId, UplinkId};
use vrdma_verbs::object::Owner;

use vrdma_process::cm::ClientId;
use vrdma_process::{Entrance, SessionId};

use crate::vm::Vm;

/// Most events taken in one call; more wait for the next.
const BATCH: usize = 64;

/// Position of the kind of descriptor in an event's data.
const TAG_SHIFT: u32 = 56;

/// Ports that fit below it, far more than a switch has.
const PORTS: u32 = 1 << 24;
const _: () = assert!(MAX_PORTS <= PORTS as usize);

/// The descriptor that an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    /// A command waits.
    Wake,
    /// A client waits to be accepted.
    Listener(PortId),
    /// A client's socket.
    Connection(PortId),
    /// An uplink.
    Wire(UplinkId),
    /// The Ethernet thread has snooped a station.
    Snooped,
    /// A process waits to be let in.
    ProcessListener(Entrance),
    /// A process's socket.
    Session(SessionId),
    /// A process that uses connection management.
    CmSession(ClientId),
    /// The doorbell of a client of an adapter of processes that is not polled in each turn.
    Doorbell(PortId, Owner),
}

impl Key {
    const WAKE: u64 = 0;
    const LISTENER: u64 = 1;
    const CONNECTION: u64 = 2;
    const PROCESS_LISTENER: u64 = 3;
    const SESSION: u64 = 4;
    const DOORBELL: u64 = 5;
    const WIRE: u64 = 6;
    const SNOOPED: u64 = 7;
    const CM_SESSION: u64 = 8;
    const ADAPTER_LISTENER: u64 = 9;

    /// Encodes the kind in the upper byte and the number below: ports have less than 24 bits.
    fn encode(self) -> epoll::EventData {
        let (tag, number) = match self {
            Self::Wake => (Self::WAKE, 0),
            Self::Listener(port) => (Self::LISTENER, port.0),
            Self::Connection(port) => (Self::CONNECTION, port.0),
            Self::ProcessListener(Entrance::All) => (Self::PROCESS_LISTENER, 0),
            Self::ProcessListener(Entrance::Of(port)) => (Self::ADAPTER_LISTENER, port.0),
            Self::Session(session) => (Self::SESSION, session.0),
            Self::Doorbell(port, owner) => {
                let port = u64::from(port.0) << 32;
                let data = Self::DOORBELL << TAG_SHIFT | port | u64::from(owner.0);
                return epoll::EventData::new_u64(data);
            }
            Self::CmSession(client) => (Self::CM_SESSION, client.0),
            Self::Wire(uplink) => (Self::WIRE, uplink.0),
            Self::Snooped => (Self::SNOOPED, 0),
        };
        epoll::EventData::new_u64(tag << TAG_SHIFT | u64::from(number))
    }

    fn decode(data: epoll::EventData) -> Self {
        let number = data.u64() as u32;
        match data.u64() >> TAG_SHIFT {
            Self::LISTENER => Self::Listener(PortId(number)),
            Self::CONNECTION => Self::Connection(PortId(number)),
            Self::PROCESS_LISTENER => Self::ProcessListener(Entrance::All),
            Self::ADAPTER_LISTENER => Self::ProcessListener(Entrance::Of(PortId(number))),
            Self::SESSION => Self::Session(SessionId(number)),
            Self::DOORBELL => {
                let port = (data.u64() >> 32) as u32 & (PORTS - 1);
                Self::Doorbell(PortId(port), Owner(number))
            }
            Self::CM_SESSION => Self::CmSession(ClientId(number)),
            Self::WIRE => Self::Wire(UplinkId(number)),
            Self::SNOOPED => Self::Snooped,
            _ => Self::Wake,
        }
    }
}

/// A descriptor that has an event.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub(super) key: Key,
    pub(super) readable: bool,
    pub(super) writable: bool,
}

impl Ready {
    /// Whether it is an uplink's.
    pub(super) fn is_uplink(&self) -> bool {
        matches!(self.key, Key::Wire(_))
    }

    /// Makes one for QEMU, which may have sent something.
    pub(super) fn connection(port: PortId) -> Self {
        Self {
            key: Key::Connection(port),
            readable: true,
            writable: false,
        }
    }

    /// Makes one for commands: more may wait than were carried out.
    pub(super) fn commands() -> Self {
        Self {
            key: Key::Wake,
            readable: true,
            writable: false,
        }
    }
}

pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    /// Makes an empty set, which may go to another thread before a poller is made of it.
    pub(super) fn open() -> std::io::Result<OwnedFd> {
        Ok(epoll::create(epoll::CreateFlags::CLOEXEC)?)
    }

    pub(super) fn new(epoll: OwnedFd) -> Self {
        Self {
            epoll,
            events: Vec::with_capacity(BATCH),
        }
    }

    /// Starts watching for input. A closed descriptor leaves the set by itself, but a thread in `wait` at that moment
    /// may be the last to hold it, and is then the one that closes it. So stop [watching](Self::unwatch) a descriptor
    /// that another thread closes because closing may take long.
    pub(super) fn watch(&self, fd: impl AsFd, key: Key) {
        self.add(fd, key, epoll::EventFlags::IN);
    }

    /// Does so, but with one event each time that something comes, so that nobody must read it.
    pub(super) fn watch_edges(&self, fd: impl AsFd, key: Key) {
        self.add(fd, key, epoll::EventFlags::IN | epoll::EventFlags::ET);
    }

    /// Stops watching a descriptor that others may keep open, or close.
    pub(super) fn unwatch(&self, fd: impl AsFd) {
        match epoll::delete(&self.epoll, fd) {
            // The client hung up right after its hello, before its doorbell was watched.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => tracing::error!("cannot stop watching: {error}"),
        }
    }

    fn add(&self, fd: impl AsFd, key: Key, flags: epoll::EventFlags) {
        let added = epoll::add(&self.epoll, fd, key.encode(), flags);
        if let Err(error) = added {
            tracing::error!("cannot watch a socket: {error}");
        }
    }

    /// Stops watching for anything until the descriptor is [watched again](Self::rewatch).
    pub(super) fn mute(&self, fd: impl AsFd, key: Key) {
        self.modify(fd, key, epoll::EventFlags::empty());
    }

    fn modify(&self, fd: impl AsFd, key: Key, flags: epoll::EventFlags) {
        if let Err(error) = epoll::modify(&self.epoll, fd, key.encode(), flags) {
            tracing::error!("cannot watch a socket: {error}");
        }
    }

    /// Watches for input, and for output while there is some to write.
    pub(super) fn rewatch(&self, fd: impl AsFd, key: Key, wants_write: bool) {
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, wants_write);
        self.modify(fd, key, flags);
    }

    /// Watches QEMU's socket, if it is connected, for what its connection needs. A connection that takes no answers, or
    /// whose device is awaited, is not read, and would wake the shard in every turn.
    pub(super) fn rewatch_qemu(&self, port: PortId, vm: &Vm) {
        let Some(connection) = vm.connection() else {
            return;
        };
        let is_read = connection.wants_read() && !vm.awaits_device();
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, is_read);
        flags.set(epoll::EventFlags::OUT, connection.wants_write());
        self.modify(connection, Key::Connection(port), flags);
    }

    /// Whether the last wait returned as many events as it may, so that there may be more.
    pub(super) fn is_behind(&self) -> bool {
        self.events.len() >= BATCH
    }

    /// Waits for events, forever if there is no time limit.
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
