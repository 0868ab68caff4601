//! What the carrier asks of an adapter.

use std::sync::Arc;

use vrdma_adapter::GidChange;
use vrdma_switch::Policy;
use vrdma_verbs::memory::Memory;
use vrdma_verbs::packet::Reply;
use vrdma_verbs::unit::{Request, Response, Route};
use vrdma_verbs::{Paths, Source, Time};
use vrdma_wire::{Gid, Mtu, Packet};

/// What the doorbells of an adapter do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doorbells {
    /// Whoever rings makes the owner of the host call [`Host::wake`](crate::Host::wake), or there are none.
    Wake,
    /// Some have to be looked at in each turn, until [`Member::sleep`].
    Polled,
    /// They lie in memory and wake nobody.
    Silent,
}

/// An adapter, whatever stands behind it: an engine, and the rings of its owner.
pub trait Member {
    /// What its engine knows registered memory by.
    type Region: Clone;
    /// Handle of the memory that its regions are reached through; cheap to make.
    type Memory: Clone;
    /// That memory while it may be touched; one view serves a turn.
    type View<'a>: Memory<Region = Self::Region>;

    /// For log lines.
    fn name(&self) -> &str;

    /// What its regions are reached through: the same for as long as it is a member.
    fn memory(&self) -> Self::Memory;

    /// A view of it.
    fn view(memory: &Self::Memory) -> Self::View<'_>;

    /// Takes note that its memory has come to rest, if it has. No view of it is held.
    fn renew_memory(&mut self, now: Time);

    /// Looks at doorbells, rings and timers; `true` if there was anything to do.
    fn poll(&mut self, memory: &Self::View<'_>, now: Time) -> bool;

    /// The next request for whoever owns its destination. Its payload is fetched before the next call.
    fn next_request(
        &mut self,
        memory: &Self::View<'_>,
        now: Time,
        paths: &mut impl Paths,
    ) -> Option<Request<Self::Region>>;

    /// Executes a request that came for this adapter.
    fn deliver(
        &mut self,
        memory: &Self::View<'_>,
        request: &Request<Self::Region>,
        source: Source<'_, Self::View<'_>>,
        now: Time,
    ) -> Option<Response<Self::Region>> {
        let answer = self.deliver_in_row(memory, request, source, now, &mut None);
        self.end_row();
        answer
    }

    /// The same for one of several in a row, which ends with [`end_row`](Self::end_row) before the requester hears an
    /// answer to any of them. For `unheard` see [`Hca::deliver_in_row`](vrdma_verbs::Hca::deliver_in_row).
    fn deliver_in_row(
        &mut self,
        memory: &Self::View<'_>,
        request: &Request<Self::Region>,
        source: Source<'_, Self::View<'_>>,
        now: Time,
        unheard: &mut Option<Response<Self::Region>>,
    ) -> Option<Response<Self::Region>>;

    /// Notes for whoever may go on after this process what a row of requests did.
    fn end_row(&mut self) {}

    /// Takes the answer to a request of this adapter.
    fn respond(
        &mut self,
        memory: &Self::View<'_>,
        response: &Response<Self::Region>,
        source: Source<'_, Self::View<'_>>,
        now: Time,
    );

    /// A copy of a datagram to many for each queue pair that listens.
    fn fan_out(&self, request: &Request<Self::Region>) -> Vec<Request<Self::Region>>;

    /// Takes in a packet from an uplink; it may be kept to be taken in with what follows.
    fn receive(&mut self, memory: &Self::View<'_>, packet: &Packet<'_>, now: Time);

    /// Takes in what [`receive`](Self::receive) has kept.
    fn end_train(&mut self, now: Time);

    /// What is owed next to peers behind uplinks: one packet, or READ data of several.
    fn next_reply(&mut self, now: Time, paths: &mut impl Paths) -> Option<Reply<Self::Region>>;

    /// A path that was full takes units again.
    fn path_has_room(&mut self);

    /// The ways to those who are connected to it, one for each pair of addresses.
    fn peers(&self) -> Vec<Route>;

    /// Whether it has connections to a peer.
    fn has_peer(&self, peer: Gid) -> bool;

    /// A peer stands still: connections to it wait.
    fn pause_peer(&mut self, peer: Gid);

    /// It goes on.
    fn resume_peer(&mut self, peer: Gid);

    /// Whether it stands still itself, since another one may go on in its place.
    fn is_still(&self) -> bool {
        false
    }

    /// How new what it tells its peers of that is: it grows whenever that changes, wherever it is.
    fn epoch(&self) -> u64 {
        0
    }

    /// Shows the owner what happened since the last call.
    fn publish(&mut self, now: Time);

    /// Whether queue pairs wait for a turn.
    fn is_runnable(&self) -> bool;

    /// What limits it: the same one for as long as it is a member.
    fn policy(&self) -> Option<&Arc<Policy>> {
        None
    }

    /// What its doorbells do.
    fn doorbells(&self) -> Doorbells;

    /// Whether one has rung of those that are looked at in each turn, or [`poll`](Self::poll) has to look itself.
    fn has_rung(&self, _now: Time) -> bool {
        true
    }

    /// From now on doorbells that were [polled](Doorbells::Polled) wake, too; `false` if one has rung
    /// already.
    fn sleep(&mut self) -> bool;

    /// They are polled again.
    fn awake(&mut self);

    /// When it wants a turn without a doorbell.
    fn next_deadline(&self) -> Option<Time>;

    /// The next change of its addresses, oldest first.
    fn take_gid_change(&mut self) -> Option<GidChange>;

    /// The multicast groups with members, if they may have changed since the last call.
    fn take_groups(&mut self) -> Option<Vec<Gid>>;

    /// The payload of one packet that its port offers from now on.
    fn set_mtu(&mut self, mtu: Mtu);

    /// Whether its engine has QP 1. Datagrams for it are handed to the owner of the host otherwise.
    fn has_gsi(&self) -> bool;
}
