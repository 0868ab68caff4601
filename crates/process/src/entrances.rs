//! The sockets that clients come by: one for all adapters, and one for each.
//!
//! A client that comes by the socket of an adapter reaches that adapter and no other. So a container gets this socket
//! and no other.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_provider::daemon;
use vrdma_provider::message::Name;
use vrdma_switch::PortId;

use crate::caller::Caller;

/// A socket that clients come by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entrance {
    /// The socket for all adapters.
    All,
    /// The socket of one adapter.
    Of(PortId),
}

/// The listening sockets of the shard that accepts.
#[derive(Debug, Default)]
pub(crate) struct Entrances {
    all: Option<OwnedFd>,
    own: BTreeMap<PortId, Own>,
}

/// The socket of one adapter.
#[derive(Debug)]
struct Own {
    listener: OwnedFd,
    adapter: Arc<str>,
}

impl Entrances {
    /// Starts with the socket for all adapters.
    pub(crate) fn new(all: Option<OwnedFd>) -> Self {
        Self {
            all,
            own: BTreeMap::new(),
        }
    }

    /// Adds the socket of an adapter.
    pub(crate) fn open(&mut self, port: PortId, adapter: Arc<str>, listener: OwnedFd) {
        self.own.insert(port, Own { listener, adapter });
    }

    /// Takes out the socket of an adapter.
    pub(crate) fn close(&mut self, port: PortId) -> Option<OwnedFd> {
        self.own.remove(&port).map(|own| own.listener)
    }

    /// All entrances.
    pub(crate) fn all(&self) -> impl Iterator<Item = Entrance> {
        let own = self.own.keys().map(|port| Entrance::Of(*port));
        [Entrance::All].into_iter().chain(own)
    }

    pub(crate) fn listener(&self, entrance: Entrance) -> Option<BorrowedFd<'_>> {
        match entrance {
            Entrance::All => self.all.as_ref().map(AsFd::as_fd),
            Entrance::Of(port) => Some(self.own.get(&port)?.listener.as_fd()),
        }
    }

    /// Accepts a waiting client, and finds out which process it is.
    pub(crate) fn accept(&self, entrance: Entrance) -> Result<Option<(OwnedFd, Caller)>, Errno> {
        let Some(listener) = self.listener(entrance) else {
            return Ok(None);
        };
        let Some(socket) = daemon::accept(listener)? else {
            return Ok(None);
        };
        let caller = Caller::at(socket.as_fd())?;
        let own = match entrance {
            Entrance::All => None,
            Entrance::Of(port) => self.own.get(&port),
        };
        let caller = match own {
            Some(own) => caller.at_socket_of(Name::new(&own.adapter).unwrap_or_default()),
            None => caller,
        };
        Ok(Some((socket, caller)))
    }
}
