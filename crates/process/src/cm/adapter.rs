//! An adapter as connection management sees it.

use std::sync::Arc;
use std::time::Duration;

use vrdma_cm::{Calls, Cm, CommId, Identity, ListenerId};
use vrdma_provider::message::Name;
use vrdma_switch::PortId;
use vrdma_wire::{Gid, Mac, Mtu};

use super::ports::Ports;

/// What the control plane knows of an adapter.
#[derive(Clone, Debug)]
pub struct AdapterSpec {
    /// Port of the switch.
    pub port: PortId,
    /// Its name, at most as long as [`Name`] takes.
    pub name: Arc<str>,
    /// Ethernet address.
    pub mac: Mac,
    /// GID of its IP address, at index 1.
    pub address: Gid,
    /// Path MTU.
    pub mtu: Mtu,
}

impl AdapterSpec {
    /// Its name, as programs are told.
    pub(super) fn told_name(&self) -> Name {
        Name::new(&self.name).unwrap_or_default()
    }
}

/// An adapter.
pub(super) struct Adapter {
    pub(super) spec: AdapterSpec,
    /// Its connections and questions, if it has had any: most adapters never connect, and this is most of what they would
    /// take.
    pub(super) cm: Option<Box<Cm>>,
    /// What changes of them is to be written down.
    is_tracked: bool,
    /// Of their names, which nobody may guess.
    seed: u64,
    pub(super) ports: Ports,
    /// It may have changed since its events were taken.
    pub(super) touched: bool,
    /// It may have datagrams.
    pub(super) sending: bool,
    /// It may have changed since it was written down.
    pub(super) unrecorded: bool,
    /// Datagrams may have been sent since the last that were delivered.
    pub(super) sent: bool,
    /// Its entry among the deadlines.
    pub(super) due: Option<Duration>,
}

/// A connection of one of the adapters.
pub(super) type Connection = (PortId, CommId);

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

    /// What changes from now on is to be written down.
    pub(super) fn track(&mut self) {
        self.is_tracked = true;
    }

    /// Its connections and questions, of which the first one may be about to come.
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

    /// Calls that came to no connection.
    pub(super) fn calls(&self) -> Calls {
        self.cm
            .as_ref()
            .map_or_else(Calls::default, |cm| cm.calls())
    }

    /// Its table of addresses.
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

    /// The own address from which another is reached: of the same kind.
    pub(super) fn source_for(&self, remote: Gid) -> Gid {
        let [link_local, address] = self.gids();
        let near = remote.0[..8] == link_local.0[..8];
        if near { link_local } else { address }
    }
}
