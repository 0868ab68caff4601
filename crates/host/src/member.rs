//! What the carrier needs of an adapter.

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
    /// A ring makes the owner of the host call [`Host::wake`](crate::Host::wake), or there are no doorbells.
    Wake,
    /// Some have to be polled in each turn, until [`Member::sleep`].
    Polled,
    /// They lie in memory and wake nobody.
    Silent,
}

/// An adapter with any front end: an engine, and the rings of its owner.
pub trait Member {
    /// The engine's name for registered memory.
    type Region: Clone;
    /// Handle of the memory that its regions are reached through; cheap to make.
    type Memory: Clone;
    /// That memory while it may be accessed; one view serves a turn.
    type View<'a>: Memory<Region = Self::Region>;

    /// Its name for log lines.
    fn name(&self) -> &str;

    /// Returns the handle of the memory that its regions are reached through: the same for as long as it is a member.
    fn memory(&self) -> Self::Memory;

    /// Returns a view of that memory.
    fn view(memory: &Self::Memory) -> Self::View<'_>;

    /// Takes note that its memory has settled, if it has. No view of it is held.
    fn renew_memory(&mut self, now: Time);

    /// Looks at doorbells, rings and timers; `true` if there was anything to do.
    fn poll(&mut self, memory: &Self::View<'_>, now: Time) -> bool;

    /// Returns the next request, for the owner of its destination. Its payload is fetched before the next call.
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

    /// Executes one of several requests in a row, which ends with [`end_row`](Self::end_row) before the requester gets
    /// an answer to any of them. For `unheard` see [`Hca::deliver_in_row`](vrdma_verbs::Hca::deliver_in_row).
    fn deliver_in_row(
        &mut self,
        memory: &Self::View<'_>,
        request: &Request<Self::Region>,
        source: Source<'_, Self::View<'_>>,
        now: Time,
        unheard: &mut Option<Response<Self::Region>>,
    ) -> Option<Response<Self::Region>>;

    /// Records what a row of requests did, for a process that goes on after this one.
    fn end_row(&mut self) {}

    /// Takes the answer to a request of this adapter.
    fn respond(
        &mut self,
        memory: &Self::View<'_>,
        response: &Response<Self::Region>,
        source: Source<'_, Self::View<'_>>,
        now: Time,
    );

    /// Returns a copy of a multicast datagram for each queue pair that listens.
    fn fan_out(&self, request: &Request<Self::Region>) -> Vec<Request<Self::Region>>;

    /// Takes in a packet from an uplink; it may be kept to be handled together with the packets that follow.
    fn receive(&mut self, memory: &Self::View<'_>, packet: &Packet<'_>, now: Time);

    /// Takes in what [`receive`](Self::receive) has kept.
    fn end_train(&mut self, now: Time);

    /// Returns the next packet, or READ data of several packets, that is owed to peers behind uplinks.
    fn next_reply(&mut self, now: Time, paths: &mut impl Paths) -> Option<Reply<Self::Region>>;

    /// Notes that a path that was full takes units again.
    fn path_has_room(&mut self);

    /// Returns the routes to the peers connected to it, one for each pair of addresses.
    fn peers(&self) -> Vec<Route>;

    /// Whether it has connections to a peer.
    fn has_peer(&self, peer: Gid) -> bool;

    /// Makes connections to a peer wait, since the peer stands still.
    fn pause_peer(&mut self, peer: Gid);

    /// Lets connections to a peer go on.
    fn resume_peer(&mut self, peer: Gid);

    /// Whether it stands still itself, since another adapter may go on in its place.
    fn is_still(&self) -> bool {
        false
    }

    /// Returns the epoch of what it tells its peers of its place: it grows with each change, on whichever host.
    fn epoch(&self) -> u64 {
        0
    }

    /// Shows the owner what happened since the last call.
    fn publish(&mut self, now: Time);

    /// Whether queue pairs wait for a turn.
    fn is_runnable(&self) -> bool;

    /// Returns its limits: the same policy for as long as it is a member.
    fn policy(&self) -> Option<&Arc<Policy>> {
        None
    }

    /// Returns how its doorbells work.
    fn doorbells(&self) -> Doorbells;

    /// Whether a polled doorbell has rung, or [`poll`](Self::poll) has to look itself.
    fn has_rung(&self, _now: Time) -> bool {
        true
    }

    /// Makes doorbells that were [polled](Doorbells::Polled) wake from now on, too; `false` if one has rung already.
    fn sleep(&mut self) -> bool;

    /// Makes them polled again.
    fn awake(&mut self);

    /// Returns when it needs a turn without a doorbell.
    fn next_deadline(&self) -> Option<Time>;

    /// Returns the next change of its addresses, oldest first.
    fn take_gid_change(&mut self) -> Option<GidChange>;

    /// Returns the multicast groups with members, if they may have changed since the last call.
    fn take_groups(&mut self) -> Option<Vec<Gid>>;

    /// Sets the payload of one packet that its port offers from now on.
    fn set_mtu(&mut self, mtu: Mtu);

    /// Whether its engine has QP 1. Otherwise datagrams for QP 1 are handed to the owner of the host.
    fn has_gsi(&self) -> bool;
}
