//! Listeners at all adapters: which of them are called is known when they are.
//!
//! ```text
//!   Listen ──► Owners::everywhere ◄── a call for that service at an adapter
//!                                           └──► a listener of that adapter, from then on
//! ```
//! So it costs the same to listen however many adapters there are, and those that are never called have nothing of it.

use std::time::Duration;

use rustix::io::Errno;
use vrdma_cm::{Addresses, Listen, MAX_LISTENERS, Received, ServiceId};
use vrdma_switch::PortId;
use vrdma_wire::cm::{CmMad, Message};
use vrdma_wire::{Format, Gid};

use super::handler::Handler;
use super::identifier::Stage;
use super::owners::Owner;
use super::service::Service;

/// Listeners at all adapters, and as many at each one alone: together they are no more than an adapter has room for, so that
/// the former find it when they are called.
pub(super) const LISTENERS_MAX: usize = MAX_LISTENERS / 2;

impl Service {
    /// A datagram is about to be received by an adapter: who listens for it at all adapters does so at this one.
    pub(super) fn prepare(&mut self, port: PortId, received: &Received<'_>, now: Duration) {
        if self.owners.everywhere.is_empty() {
            return;
        }
        if let Some(service) = asked_for(received.bytes) {
            self.hear(port, service, received.ends.local, now);
        }
    }

    /// Calls for a service at an address are heard by those who listen for it at all adapters.
    pub(super) fn hear(&mut self, port: PortId, service: ServiceId, at: Gid, now: Duration) {
        let family = match at.to_ipv4() {
            Some(_) => Addresses::Ipv4,
            None => Addresses::Ipv6,
        };
        for at in [family, Addresses::All] {
            let listens = Listen { service, at };
            let owner = self.owners.everywhere.get(&listens).copied();
            if let Some(owner) = owner.filter(|owner| !self.hears_at(*owner, port)) {
                self.with(owner.client, now, |handler| {
                    // One of its own adapters alone is nearer; there is room otherwise.
                    let _refused = handler.listen_at(owner.id, port);
                });
            }
        }
    }

    fn hears_at(&self, owner: Owner, port: PortId) -> bool {
        let client = self.clients.get(&owner.client);
        let identifier = client.and_then(|client| client.identifiers.get(&owner.id));
        identifier.is_some_and(|it| it.listeners.contains_key(&port))
    }

    /// A call that waited in another service finds its listener again, before it is resumed.
    pub(super) fn hear_again(&mut self, owner: Owner, now: Duration) {
        let client = self.clients.get(&owner.client);
        let identifier = client.and_then(|client| client.identifiers.get(&owner.id));
        let Some(call) = identifier.filter(|it| it.stage == Stage::Called) else {
            return;
        };
        let (service, at) = (call.service(&call.route.local), Gid(call.route.sgid));
        if let Some(port) = call.adapter.filter(|port| self.adapters.has(*port)) {
            self.hear(port, service, at, now);
        }
    }
}

impl Handler<'_> {
    pub(super) fn listen_everywhere(&mut self, id: u64, listens: Listen) -> Result<(), Errno> {
        let others = self.owners.is_listened_for(&listens);
        if others || self.owners.everywhere.contains_key(&listens) {
            return Err(Errno::ADDRINUSE);
        }
        if self.owners.everywhere.len() >= LISTENERS_MAX {
            return Err(Errno::NOMEM);
        }
        let owner = self.owner(id);
        self.owners.everywhere.insert(listens, owner);
        Ok(())
    }

    pub(super) fn stop_listening_everywhere(&mut self, id: u64, listens: &Listen) {
        // Another one may have it: then this one was refused.
        if self.owners.everywhere.get(listens) == Some(&self.owner(id)) {
            self.owners.everywhere.remove(listens);
        }
    }

    /// Whether it may listen at one adapter and not at all.
    pub(super) fn check_alone(&self, listens: &Listen, port: PortId) -> Result<(), Errno> {
        if self.owners.everywhere.contains_key(listens) {
            return Err(Errno::ADDRINUSE);
        }
        let fits = self.owners.listeners_at(port) < LISTENERS_MAX;
        fits.then_some(()).ok_or(Errno::NOMEM)
    }
}

/// The service that a datagram asks for.
fn asked_for(bytes: &[u8]) -> Option<ServiceId> {
    match CmMad::parse(bytes).ok()?.message {
        Message::Req(req) => Some(req.service),
        Message::SidrReq(asked) => Some(asked.service),
        _ => None,
    }
}
