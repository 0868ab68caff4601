//! An adapter as connection management sees it.

use std::sync::Arc;
use std::time::Duration;

use vrdma_cm::{Calls, Cm, CommId, Identity, ListenerId};
use vrdma_provider::message::Name;
use vrdma_switch::PortId;
use vrdma_wire::{Gid, Mac, Mtu};

use super::ports::Ports;

/// The control plane's description of an adapter.
#[derive(Clone, Debug)]
pub struct AdapterSpec {
    /// The adapter's port at the switch.
    pub port: PortId,
    /// The adapter's name, at most as long as [`Name`] takes.
    pub name: Arc<str>,
    /// Ethernet address.
    pub mac: Mac,
    /// GID of its IP address, at index 1.
    pub address: Gid,
    /// Path MTU.
    pub mtu: Mtu,
}

impl AdapterSpec {
    /// The name in the form that programs get.
    pub(super) fn told_name(&self) -> Name {
        Name::new(&self.name).unwrap_or_default()
    }
}

/// An adapter.
pub(super) struct Adapter {
    pub(super) spec: AdapterSpec,
    /// The adapter's connections and SIDR requests; `None` until the first: most adapters never connect, and this would
    /// be most of their size.
    pub(super) cm: Option<Box<Cm>>,
    /// Whether changes of `cm` are to be recorded.
    is_tracked: bool,
    /// Seed of the connections' names, which nobody may guess.
    seed: u64,
    pub(super) ports: Ports,
    /// Whether the adapter may have changed since its events were taken.
    pub(super) touched: bool,
    /// Whether the adapter may have datagrams to send.
    pub(super) sending: bool,
    /// Whether the adapter may have changed since it was recorded.
    pub(super) unrecorded: bool,
    /// Whether datagrams may have been sent since the last that were delivered.
    pub(super) sent: bool,
    /// The adapter's entry among the deadlines.
    pub(super) due: Option<Duration>,
}

/// A connection of one of the adapters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Connection {
    /// The adapter's port at the switch.
    pub(super) port: PortId,
    /// The connection's name among those of the adapter.
    pub(super) name: CommId,
}

/// A listener of one of the adapters.
pub(super) type Listening = (PortId, ListenerId);

impl Adapter {
    pub(super) fn new(spec: AdapterSpec, seed: u64) -> Self {
        Self {
            cm: None,
            is_tracked: false,
            seed,
            ports: Ports::starting_at(seed >> 32),
            touched: false,
            sending: false,
            unrecorded: false,
            sent: false,
            due: None,
            spec,
        }
    }

    /// Starts to record changes.
    pub(super) fn track(&mut self) {
        self.is_tracked = true;
    }

    /// Returns the connections and SIDR requests, made now if there were none.
    pub(super) fn make_cm(&mut self) -> &mut Cm {
        self.cm.get_or_insert_with(|| {
            let mut cm = Cm::new(Identity {
                guid: u64::from_be_bytes(self.spec.mac.eui64()),
                seed: self.seed,
            });
            if self.is_tracked {
                cm.track();
            }
            Box::new(cm)
        })
    }

    /// Counts of incoming requests that led to no connection.
    pub(super) fn calls(&self) -> Calls {
        self.cm
            .as_ref()
            .map_or_else(Calls::default, |cm| cm.calls())
    }

    /// The adapter's GID table.
    pub(super) fn gids(&self) -> [Gid; 2] {
        [Gid::link_local(self.spec.mac), self.spec.address]
    }

    /// Index of an address in the adapter's table.
    pub(super) fn index_of(&self, gid: Gid) -> Option<u8> {
        self.gids()
            .iter()
            .position(|own| *own == gid)
            .map(|at| at as u8)
    }

    /// The own address from which another is reached: the one of the same kind.
    pub(super) fn source_for(&self, remote: Gid) -> Gid {
        let [link_local, address] = self.gids();
        let near = remote.0[..8] == link_local.0[..8];
        if near { link_local } else { address }
    }
}
