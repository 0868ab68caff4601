//! Addresses whose resolution identifiers wait for (rdma_resolve_addr(3)).
//!
//! ```text
//!   resolve_address ──► Search ──► does anybody know the address? ── yes ──► AddressResolved
//!                          ▲               │ not yet
//!                          └── a little later ── time is up ──► AddressError
//! ```
//! The shard finds out who has the address: an adapter of this host, or a neighbour behind an uplink.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::io::Errno;
use vrdma_provider::cm::{Endpoint, Event, EventKind};
use vrdma_switch::PortId;
use vrdma_wire::Gid;

use super::address::{AddressKind, endpoint, place};
use super::client::ClientId;
use super::handler::{Handler, timed_out};
use super::identifier::Stage;
use super::owners::Owner;

/// Pauses before an address is asked for again: short at first, since a neighbour may just have answered, then ever
/// longer.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// Most addresses that one client may search for at a time: each is a question to a whole network, ten times a second.
const SEARCHES_MAX: usize = 256;

/// A search for an address.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The adapter to search from.
    pub port: PortId,
    /// The adapter's address to search from.
    pub sgid: Gid,
    /// The address to find.
    pub dgid: Gid,
    pub(super) owner: Owner,
    pub(super) remote: Endpoint,
    /// Duration of the whole search.
    pub(super) patience: Duration,
    pause: Duration,
    /// Time at which the search is given up.
    until: Duration,
}

/// Source and destination of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) sgid: Gid,
    pub(super) dgid: Gid,
    /// The destination as the program gave it.
    pub(super) remote: Endpoint,
}

/// All searches: at most one for each identifier.
#[derive(Default)]
pub(super) struct Searches {
    due: BTreeMap<(Duration, Owner), Search>,
    when: BTreeMap<Owner, Duration>,
}

impl Searches {
    fn add(&mut self, at: Duration, search: Search) {
        self.due.insert((at, search.owner), search);
        self.when.insert(search.owner, at);
    }

    /// The search of an identifier.
    pub(super) fn get(&self, owner: Owner) -> Option<&Search> {
        let at = *self.when.get(&owner)?;
        self.due.get(&(at, owner))
    }

    fn of(&self, client: ClientId) -> impl Iterator<Item = Owner> + '_ {
        let all = |id| Owner { client, id };
        let known = self.when.range(all(u64::MIN)..=all(u64::MAX));
        known.map(|(owner, _)| *owner)
    }

    pub(super) fn next_due(&mut self, now: Duration) -> Option<Search> {
        let (&(at, owner), &search) = self.due.first_key_value()?;
        if at > now {
            return None;
        }
        self.forget(owner);
        Some(search)
    }

    /// Schedules the search once more; `false` if its time is up.
    pub(super) fn add_again(&mut self, mut search: Search, now: Duration) -> bool {
        let in_time = now < search.until;
        if in_time {
            let at = search.until.min(now + search.pause);
            search.pause = (search.pause * 2).min(LAST_PAUSE);
            self.add(at, search);
        }
        in_time
    }

    pub(super) fn forget(&mut self, owner: Owner) {
        if let Some(at) = self.when.remove(&owner) {
            self.due.remove(&(at, owner));
        }
    }

    pub(super) fn forget_client(&mut self, client: ClientId) {
        for owner in self.of(client).collect::<Vec<_>>() {
            self.forget(owner);
        }
    }

    /// Takes the searches from an adapter that is gone.
    pub(super) fn take_of(&mut self, port: PortId) -> Vec<Search> {
        let all = self.due.values().copied();
        let lost: Vec<Search> = all.filter(|search| search.port == port).collect();
        lost.iter().for_each(|search| self.forget(search.owner));
        lost
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }
}

impl Handler<'_> {
    /// Searches for an address, for at most `patience`.
    pub(super) fn search(
        &mut self,
        id: u64,
        port: PortId,
        places: Places,
        patience: Duration,
    ) -> Result<Search, Errno> {
        if self.searches.of(self.key).count() >= SEARCHES_MAX {
            return Err(Errno::NOMEM);
        }
        self.client.get(id)?.stage = Stage::Resolving;
        let Places { sgid, dgid, remote } = places;
        let search = Search {
            port,
            sgid,
            dgid,
            owner: self.owner(id),
            remote,
            patience,
            pause: FIRST_PAUSE,
            until: self.now + patience,
        };
        self.searches.add(self.now, search);
        Ok(search)
    }

    /// Goes on with the search of an earlier service.
    pub(super) fn search_again(
        &mut self,
        id: u64,
        port: Option<PortId>,
        patience_ms: u64,
        places: Option<Places>,
    ) {
        let waits = self.client.get(id);
        if !waits.is_ok_and(|it| it.stage == Stage::Resolving) {
            return;
        }
        // No longer than a request may ask for.
        let patience = Duration::from_millis(patience_ms.min(u32::MAX.into()));
        let begun = port
            .zip(places)
            .and_then(|(port, places)| self.search(id, port, places, patience).ok());
        if begun.is_none() {
            self.give_up_search(id);
        }
    }

    /// Reports that the peer was found.
    pub(super) fn found(&mut self, search: &Search) {
        let id = search.owner.id;
        let waits = self
            .client
            .get(id)
            .is_ok_and(|it| it.stage == Stage::Resolving);
        self.searches.forget(search.owner);
        if !waits {
            return;
        }
        if self.fix_source(id, search.port, search.sgid).is_err() {
            return self.not_found(search);
        }
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        let local = &mut identifier.route.local;
        if matches!(place(local), Some(AddressKind::Any | AddressKind::Loopback)) {
            *local = endpoint(search.sgid, local.port);
        }
        identifier.route.remote = search.remote;
        identifier.route.dgid = search.dgid.0;
        identifier.stage = Stage::AddressResolved;
        self.tell(id, EventKind::AddressResolved);
    }

    /// Reports that the peer was not found. The program may try another address.
    pub(super) fn not_found(&mut self, search: &Search) {
        self.give_up_search(search.owner.id);
    }

    fn give_up_search(&mut self, id: u64) {
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        identifier.stage = Stage::Bound;
        self.client.tell(Event {
            id,
            kind: EventKind::AddressError as u32,
            status: timed_out(),
            ..Event::default()
        });
    }
}
