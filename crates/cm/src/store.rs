//! The connections of an adapter, found by each of the names that messages use, and their timers.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use vrdma_wire::cm::CommId;
use vrdma_wire::{Gid, Qpn};

use crate::changed::Changed;
use crate::connection::{Connection, State};

/// Most connections of one adapter, in whatever state, and most questions for datagram services. Further connections are
/// refused, those of peers by a REJ; questions of peers are dropped. At under a kilobyte each, this bounds what a
/// stranger's REQs can take.
pub const MAX_CONNECTIONS: usize = 16384;

/// Most calls that are no connections yet. Further ones are refused, so that the adapter's own connections find room.
pub const MAX_HALF_OPEN: usize = MAX_CONNECTIONS / 2;

/// Most such calls of one remote address: a sixteenth of all connections, and as many as a listener lets wait.
pub const MAX_HALF_OPEN_OF_ONE: usize = MAX_HALF_OPEN / 8;

/// All connections. Peers are told apart by their addresses, which the switch guarantees; the node GUIDs in messages
/// are not verified.
#[derive(Default)]
pub(crate) struct Store {
    connections: BTreeMap<CommId, Connection>,
    by_remote: BTreeMap<(Gid, CommId), CommId>,
    by_pair: BTreeMap<(Gid, Qpn), CommId>,
    timers: BTreeSet<(Duration, CommId)>,
    /// Number of calls that are no connections yet, by the address of the caller.
    half_open: BTreeMap<Gid, usize>,
    half_open_in_all: usize,
    pub(crate) changed: Changed,
}

impl Store {
    pub(crate) fn is_full(&self) -> bool {
        self.connections.len() >= MAX_CONNECTIONS
    }

    pub(crate) fn contains(&self, id: CommId) -> bool {
        self.connections.contains_key(&id)
    }

    pub(crate) fn get(&self, id: CommId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    /// Returns a connection, mutably.
    pub(crate) fn get_mut(&mut self, id: CommId) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(&id)?;
        self.changed.note(id);
        Some(connection)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = CommId> {
        self.connections.keys().copied()
    }

    /// Whether another call of a remote address may wait.
    pub(crate) fn admits_call(&self, from: Gid) -> bool {
        let of_one = self.half_open.get(&from).copied().unwrap_or_default();
        of_one < MAX_HALF_OPEN_OF_ONE && self.half_open_in_all < MAX_HALF_OPEN
    }

    /// Returns the number of calls that are no connections yet.
    pub(crate) fn half_open(&self) -> usize {
        self.half_open_in_all
    }

    /// Notes that a call has become a connection.
    pub(crate) fn opened(&mut self, id: CommId) {
        let Some(connection) = self.get_mut(id) else {
            return;
        };
        if connection.half_open.take().is_some() {
            let from = connection.ends.remote;
            self.forget_half_open(from);
        }
    }

    fn forget_half_open(&mut self, from: Gid) {
        self.half_open_in_all -= 1;
        if let Entry::Occupied(mut count) = self.half_open.entry(from) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    pub(crate) fn insert(&mut self, connection: Connection) {
        if connection.half_open.is_some() {
            *self.half_open.entry(connection.ends.remote).or_default() += 1;
            self.half_open_in_all += 1;
        }
        self.changed.note(connection.local);
        self.connections.insert(connection.local, connection);
        self.name_peer(connection.local);
        self.assert_counts();
    }

    /// Checks that no entries of removed connections are left.
    fn assert_counts(&self) {
        let connections = self.connections.len();
        debug_assert!(
            connections <= MAX_CONNECTIONS,
            "who inserts has asked for room"
        );
        debug_assert!(
            self.half_open_in_all <= connections,
            "calls that wait are among them"
        );
        debug_assert!(
            self.half_open.len() <= self.half_open_in_all,
            "nobody is kept who has no call"
        );
        debug_assert!(
            self.by_remote.len() <= connections,
            "a connection has one name of its peer's"
        );
        debug_assert!(
            self.by_pair.len() <= connections,
            "a connection has one queue pair of its peer's"
        );
        debug_assert!(
            self.timers.len() <= connections,
            "a connection has one timer"
        );
    }

    /// Makes a connection known by the names that its peer has given.
    pub(crate) fn name_peer(&mut self, id: CommId) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        if let Some(peer) = connection.peer {
            let from = connection.ends.remote;
            self.by_remote.insert((from, connection.remote), id);
            self.by_pair.insert((from, peer.qpn), id);
        }
    }

    /// Returns the connection that a peer knows by a name.
    pub(crate) fn of_remote(&self, from: Gid, name: CommId) -> Option<CommId> {
        self.by_remote.get(&(from, name)).copied()
    }

    /// Returns the live connection to a peer's queue pair. One in its last state leaves the QPN free: the peer knows
    /// best when it may use it again.
    pub(crate) fn of_pair(&self, from: Gid, qpn: Qpn) -> Option<CommId> {
        let id = *self.by_pair.get(&(from, qpn))?;
        let connection = self.connections.get(&id)?;
        (connection.state != State::TimeWait).then_some(id)
    }

    pub(crate) fn remove(&mut self, id: CommId) -> Option<Connection> {
        self.set_deadline(id, None);
        self.opened(id);
        let connection = self.connections.remove(&id)?;
        if let Some(peer) = connection.peer {
            let from = connection.ends.remote;
            remove_if(&mut self.by_remote, (from, connection.remote), id);
            remove_if(&mut self.by_pair, (from, peer.qpn), id);
        }
        self.assert_counts();
        Some(connection)
    }

    pub(crate) fn set_deadline(&mut self, id: CommId, deadline: Option<Duration>) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if let Some(old) = core::mem::replace(&mut connection.deadline, deadline) {
            self.timers.remove(&(old, id));
        }
        if let Some(new) = deadline {
            self.timers.insert((new, id));
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Takes a connection whose time has come, and clears its timer.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<CommId> {
        let (at, id) = *self.timers.first()?;
        if at > now {
            return None;
        }
        self.set_deadline(id, None);
        Some(id)
    }
}

/// Removes an entry, unless a later connection has taken over the name.
fn remove_if<K: Ord>(map: &mut BTreeMap<K, CommId>, key: K, id: CommId) {
    if map.get(&key) == Some(&id) {
        map.remove(&key);
    }
}
