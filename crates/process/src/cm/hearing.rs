//! Listeners at all adapters: each becomes a listener of an adapter when the first request comes there.
//!
//! ```text
//!   Listen ──► Owners::everywhere ◄── a call for that service at an adapter
//!                                           └──► a listener of that adapter, from then on
//! ```
//! So listening costs the same however many adapters there are, and adapters that are never called bear no cost.

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

/// Most listeners at all adapters, and most others at each single one. Together they are no more than an adapter has
/// room for, so that a listener at all adapters finds room when a request comes.
pub(super) const LISTENERS_MAX: usize = MAX_LISTENERS / 2;

impl Service {
    /// Prepares for a datagram that an adapter is about to receive: if its service has a listener at all adapters, this
    /// listener becomes one of the adapter.
    pub(super) fn prepare(&mut self, port: PortId, received: &Received<'_>, now: Duration) {
        if self.owners.everywhere.is_empty() {
            return;
        }
        if let Some(service) = asked_for(received.bytes) {
            self.hear(port, service, received.ends.local, now);
        }
    }

    /// Lets requests for a service at an address reach the listener that has this service at all adapters.
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
                    // A listener at this adapter alone takes precedence; there is room otherwise.
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

    /// Makes the listener of a request that waited in an earlier service one of the request's adapter again, before the
    /// request is resumed.
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
        // The entry may be another identifier's: then this one was refused.
        if self.owners.everywhere.get(listens) == Some(&self.owner(id)) {
            self.owners.everywhere.remove(listens);
        }
    }

    /// Checks that an identifier may listen at this adapter but not at all adapters.
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
