//! The owners of connections and listeners: identifiers of clients.

use std::collections::{BTreeMap, BTreeSet};

use vrdma_cm::{CommId, Listen, ListenerId};
use vrdma_switch::PortId;

use super::adapter::{Connection, Listening};
use super::client::ClientId;

/// The identifier, and its client, that something belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Owner {
    pub(super) client: ClientId,
    pub(super) id: u64,
}

/// A listener of an adapter.
#[derive(Clone, Copy, Debug)]
struct Listener {
    owner: Owner,
    /// Service and address of the listener, unless it listens at all adapters.
    alone: Option<Listen>,
}

/// The owners of connections and listeners, sorted by adapter; and the identifiers that are concerned when an adapter
/// comes or goes, so that no others are looked at.
#[derive(Default)]
pub(super) struct Owners {
    pub(super) connections: BTreeMap<Connection, Owner>,
    listeners: BTreeMap<Listening, Listener>,
    /// Listeners at all adapters. They become listeners of an adapter when a request comes there.
    pub(super) everywhere: BTreeMap<Listen, Owner>,
    /// For the other listeners: how many have each service and address, and how many each adapter has.
    places: BTreeMap<Listen, usize>,
    counts: BTreeMap<PortId, usize>,
    /// Identifiers by the adapters that they use: those that are bound to the adapter or connected at it.
    at: BTreeSet<(PortId, Owner)>,
    /// Identifiers that are bound one by one to all adapters that their clients may use, also to those that come later.
    wide: BTreeSet<Owner>,
}

impl Owners {
    /// Notes that an identifier uses an adapter: it is told when the adapter goes.
    pub(super) fn tie(&mut self, port: PortId, owner: Owner) {
        self.at.insert((port, owner));
    }

    /// Notes that the identifier uses the adapter no more.
    pub(super) fn untie(&mut self, port: PortId, owner: Owner) {
        self.at.remove(&(port, owner));
    }

    /// Notes that an identifier is bound to all adapters.
    pub(super) fn widen(&mut self, owner: Owner) {
        self.wide.insert(owner);
    }

    /// Notes that the identifier is bound to all adapters no more.
    pub(super) fn narrow(&mut self, owner: Owner) {
        self.wide.remove(&owner);
    }

    /// The identifiers that are bound to all adapters.
    pub(super) fn wide(&self) -> impl Iterator<Item = Owner> {
        self.wide.iter().copied()
    }

    /// Forgets an adapter that is gone. Returns the identifiers that used it.
    pub(super) fn forget_adapter(&mut self, port: PortId) -> Vec<Owner> {
        let named = |name| Connection {
            port,
            name: CommId(name),
        };
        let connections = self.connections.range(named(0)..=named(u32::MAX));
        for connection in connections.map(|(it, _)| *it).collect::<Vec<_>>() {
            self.connections.remove(&connection);
        }
        let all = (port, ListenerId(0))..=(port, ListenerId(u32::MAX));
        let listeners = self.listeners.range(all).map(|(listener, _)| *listener);
        for listener in listeners.collect::<Vec<_>>() {
            self.remove_listener(listener);
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

    /// Whether there are no entries at all.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let listens = self.listeners.len() + self.everywhere.len();
        let counted = self.places.len() + self.counts.len();
        let tied = self.connections.len() + self.at.len() + self.wide.len();
        listens + counted + tied == 0
    }

    /// Adds a listener of an adapter; `alone` tells its service and address, unless it listens at all adapters.
    pub(super) fn add_listener(&mut self, at: Listening, owner: Owner, alone: Option<Listen>) {
        self.listeners.insert(at, Listener { owner, alone });
        if let Some(listens) = alone {
            *self.places.entry(listens).or_default() += 1;
            *self.counts.entry(at.0).or_default() += 1;
        }
    }

    pub(super) fn remove_listener(&mut self, at: Listening) {
        let removed = self.listeners.remove(&at);
        if let Some(listens) = removed.and_then(|listener| listener.alone) {
            count_down(&mut self.places, listens);
            count_down(&mut self.counts, at.0);
        }
    }

    pub(super) fn of_listener(&self, at: Listening) -> Option<Owner> {
        self.listeners.get(&at).map(|listener| listener.owner)
    }

    /// Whether an identifier listens for the same at single adapters.
    pub(super) fn is_listened_for(&self, listens: &Listen) -> bool {
        self.places.contains_key(listens)
    }

    /// Number of listeners at an adapter, without those at all adapters.
    pub(super) fn listeners_at(&self, port: PortId) -> usize {
        self.counts.get(&port).copied().unwrap_or(0)
    }
}

fn count_down<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}
