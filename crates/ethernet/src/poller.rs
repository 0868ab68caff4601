//! The descriptors that the thread waits for.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use vrdma_switch::{PortId, UplinkId};

/// Most events of one turn; more stay ready in the kernel for the next turn.
const EVENTS_MAX: usize = 64;

/// What is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// Commands wait.
    Inbox,
    /// A client connects to the port's socket.
    Listener(PortId),
    /// The port's client has sent bytes, has room, or is gone.
    Client(PortId),
    /// The uplink has frames or room.
    UplinkPort(UplinkId),
}

/// A [`Token`] in the 64 bits that epoll keeps: the number above two bits of kind.
fn encode(token: Token) -> EventData {
    EventData::new_u64(match token {
        Token::Inbox => 0,
        Token::Listener(port) => u64::from(port.0) << 2 | 1,
        Token::Client(port) => u64::from(port.0) << 2 | 2,
        Token::UplinkPort(uplink) => u64::from(uplink.0) << 2 | 3,
    })
}

fn decode(data: EventData) -> Token {
    let bits = data.u64();
    let port = PortId((bits >> 2) as u32);
    match bits & 3 {
        0 => Token::Inbox,
        1 => Token::Listener(port),
        2 => Token::Client(port),
        _ => Token::UplinkPort(UplinkId((bits >> 2) as u32)),
    }
}

/// How a client or an uplink is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Watched {
    /// Input is not watched: other ports are still missing.
    pub(super) waits: bool,
    /// Room is watched.
    pub(super) room: bool,
    /// Only new input is watched, not what is there already.
    pub(super) stalled: bool,
}

/// An epoll instance, level-triggered unless noted: what is not taken in one turn is reported again in the next.
#[derive(Clone, Debug)]
pub(super) struct Poller {
    epoll: Arc<OwnedFd>,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: Arc::new(epoll::create(CreateFlags::CLOEXEC)?),
        })
    }

    /// Stops watching a descriptor that another thread is to close because closing may take long: otherwise, a thread
    /// that waits at that moment could hold the last reference, and would close it. A descriptor that was not watched
    /// is ignored.
    pub(super) fn remove(&self, fd: impl AsFd) {
        if let Err(error) = epoll::delete(&self.epoll, fd)
            && error != Errno::NOENT
        {
            tracing::error!("cannot stop watching: {error}");
        }
    }

    /// Watches for input until the descriptor is closed.
    pub(super) fn add(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, encode(token), EventFlags::IN)?)
    }

    /// Changes how a client or an uplink is watched.
    pub(super) fn watch_as(&self, fd: impl AsFd, token: Token, watched: Watched) -> io::Result<()> {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, !watched.waits);
        flags.set(EventFlags::OUT, watched.room);
        flags.set(EventFlags::ET, watched.stalled);
        Ok(epoll::modify(&self.epoll, fd, encode(token), flags)?)
    }

    /// Watches a listener, or stops watching it.
    pub(super) fn watch_listener(
        &self,
        fd: impl AsFd,
        token: Token,
        watched: bool,
    ) -> io::Result<()> {
        let flags = if watched {
            EventFlags::IN
        } else {
            EventFlags::empty()
        };
        Ok(epoll::modify(&self.epoll, fd, encode(token), flags)?)
    }

    /// Sleeps until something is ready, at most for `patience`; fills `ready` with what is ready, and whether it has
    /// room.
    pub(super) fn wait(
        &self,
        ready: &mut Vec<(Token, bool)>,
        patience: Option<Duration>,
    ) -> io::Result<()> {
        ready.clear();
        let timeout = patience.map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Fields of a packed structure are copied out before use.
        ready.extend(events.iter().map(|event| {
            let (data, flags) = (event.data, event.flags);
            (decode(data), flags.contains(EventFlags::OUT))
        }));
        Ok(())
    }
}
