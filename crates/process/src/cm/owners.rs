//! Which identifier of which client what belongs to.

use std::collections::{BTreeMap, BTreeSet};

use vrdma_cm::{CommId, ListenerId};
use vrdma_switch::PortId;

use super::adapter::{Connection, Listening};
use super::client::ClientId;

/// Which client's identifier something belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Owner {
    pub(super) client: ClientId,
    pub(super) id: u64,
}

/// Whose connections and listeners are whose, those of one adapter beside each other; and whom it concerns when an
/// adapter comes or goes, so that nobody else is looked at.
#[derive(Default)]
pub(super) struct Owners {
    pub(super) connections: BTreeMap<Connection, Owner>,
    pub(super) listeners: BTreeMap<Listening, Owner>,
    /// Identifiers by adapters of which they have something: as many for each adapter as are bound to it or called by it.
    at: BTreeSet<(PortId, Owner)>,
    /// Identifiers that are bound to all adapters, also to those that come.
    wide: BTreeSet<Owner>,
}

impl Owners {
    /// An identifier has something of an adapter: it is told when that goes.
    pub(super) fn tie(&mut self, port: PortId, owner: Owner) {
        self.at.insert((port, owner));
    }

    /// It is gone.
    pub(super) fn untie(&mut self, port: PortId, owner: Owner) {
        self.at.remove(&(port, owner));
    }

    /// An identifier is bound to all adapters.
    pub(super) fn widen(&mut self, owner: Owner) {
        self.wide.insert(owner);
    }

    /// It is no more.
    pub(super) fn narrow(&mut self, owner: Owner) {
        self.wide.remove(&owner);
    }

    /// Those that are bound to all adapters.
    pub(super) fn wide(&self) -> impl Iterator<Item = Owner> {
        self.wide.iter().copied()
    }

    /// An adapter is gone. The identifiers that had something of it.
    pub(super) fn forget_adapter(&mut self, port: PortId) -> Vec<Owner> {
        let first = (port, CommId(0));
        let connections = self.connections.range(first..=(port, CommId(u32::MAX)));
        for connection in connections.map(|(it, _)| *it).collect::<Vec<_>>() {
            self.connections.remove(&connection);
        }
        for listener in self.listeners_at(port).collect::<Vec<_>>() {
            self.listeners.remove(&listener);
        }
        let tied: Vec<Owner> = self.tied_to(port).collect();
        for owner in &tied {
            self.untie(port, *owner);
        }
        tied
    }

    fn tied_to(&self, port: PortId) -> impl Iterator<Item = Owner> {
        let owner = |client, id| Owner {
            client: ClientId(client),
            id,
        };
        let all = (port, owner(0, 0))..=(port, owner(u32::MAX, u64::MAX));
        self.at.range(all).map(|(_, owner)| *owner)
    }

    /// Nobody has anything.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let is_free = self.connections.is_empty() && self.listeners.is_empty();
        is_free && self.at.is_empty() && self.wide.is_empty()
    }

    /// The listeners of an adapter.
    pub(super) fn listeners_at(&self, port: PortId) -> impl Iterator<Item = Listening> {
        let all = (port, ListenerId(0))..=(port, ListenerId(u32::MAX));
        self.listeners.range(all).map(|(listener, _)| *listener)
    }
}
