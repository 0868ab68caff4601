//! The listeners of an adapter, and how many calls wait for each.

use alloc::collections::BTreeMap;

use vrdma_wire::Gid;
use vrdma_wire::cm::ServiceId;

use crate::terms::Refused;

/// Most listeners of one adapter; further ones are refused. So a process that listens on many ports reaches this limit,
/// and not that of the daemon's memory.
pub const MAX_LISTENERS: usize = 4096;

/// Most calls that may wait for one listener's answer, whatever it asked for. Further calls are rejected; further
/// questions are dropped, and their callers repeat them.
pub const MAX_BACKLOG: u32 = 1024;

/// Name of a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenerId(pub u32);

/// Service and addresses of a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Listen {
    /// The service.
    pub service: ServiceId,
    /// The addresses.
    pub at: Addresses,
}

/// Addresses of a listener. The nearest listener gets the call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Addresses {
    /// One address.
    One(Gid),
    /// All IPv4 addresses.
    Ipv4,
    /// All IPv6 addresses.
    Ipv6,
    /// All addresses.
    All,
}

impl Addresses {
    /// Returns all addresses of the family of `address`.
    fn family_of(address: Gid) -> Self {
        match address.to_ipv4() {
            Some(_) => Self::Ipv4,
            None => Self::Ipv6,
        }
    }
}

struct Listener {
    at: Listen,
    backlog: u32,
    waiting: u32,
}

/// All listeners of an adapter.
#[derive(Default)]
pub(crate) struct Listeners {
    by_place: BTreeMap<Listen, ListenerId>,
    listeners: BTreeMap<ListenerId, Listener>,
    next: u32,
}

impl Listeners {
    pub(crate) fn add(&mut self, at: Listen, backlog: u32) -> Result<ListenerId, Refused> {
        if self.listeners.len() >= MAX_LISTENERS {
            return Err(Refused::Full);
        }
        if self.by_place.contains_key(&at) {
            return Err(Refused::Taken);
        }
        let id = self.free_id();
        self.by_place.insert(at, id);
        let listener = Listener {
            at,
            backlog: backlog.clamp(1, MAX_BACKLOG),
            waiting: 0,
        };
        self.listeners.insert(id, listener);
        Ok(id)
    }

    fn free_id(&mut self) -> ListenerId {
        loop {
            self.next = self.next.wrapping_add(1);
            let id = ListenerId(self.next);
            if !self.listeners.contains_key(&id) {
                return id;
            }
        }
    }

    pub(crate) fn remove(&mut self, id: ListenerId) -> Result<(), Refused> {
        let listener = self.listeners.remove(&id).ok_or(Refused::Unknown)?;
        self.by_place.remove(&listener.at);
        Ok(())
    }

    /// Returns the listener for a service at an address.
    pub(crate) fn find(&self, service: ServiceId, address: Gid) -> Option<ListenerId> {
        let nearest = [
            Addresses::One(address),
            Addresses::family_of(address),
            Addresses::All,
        ];
        let mut nearest = nearest.into_iter();
        nearest.find_map(|at| self.by_place.get(&Listen { service, at }).copied())
    }

    /// Returns the service of a listener.
    pub(crate) fn service(&self, id: ListenerId) -> Option<ServiceId> {
        Some(self.listeners.get(&id)?.at.service)
    }

    /// Counts one more call that waits; `false` if there is no room for it.
    pub(crate) fn wait(&mut self, id: ListenerId) -> bool {
        match self.listeners.get_mut(&id) {
            Some(listener) if listener.waiting < listener.backlog => {
                listener.waiting += 1;
                true
            }
            _ => false,
        }
    }

    /// Counts one call less, which was answered or has gone away.
    pub(crate) fn answered(&mut self, id: ListenerId) {
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }
}
