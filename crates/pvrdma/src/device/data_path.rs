//! The calls that the thread that serves the device makes again and again.
//!
//! `memory` is always a view of the device's own [`Space`](vrdma_memory::Space): one view serves a batch of calls.
//! While the device is not active, is frozen, or must not master the bus, nothing happens; nothing is lost that would
//! not be repeated.

use vrdma_adapter::{Publishing, Receiving, Sending};
use vrdma_memory::{Region, View};
use vrdma_verbs::packet::Reply;
use vrdma_verbs::unit::{Request, Response};
use vrdma_verbs::{Paths, Source, Time};
use vrdma_wire::Packet;

use super::{Device, Stage};
use crate::abi::doorbell::Doorbell;
use crate::adapter::{Adapter, Turn};

impl Device {
    /// The adapter, if it may work.
    fn working(&mut self) -> Option<&mut Adapter> {
        match &mut self.stage {
            Stage::Active(adapter, _) if self.config_space.bus_master() && !self.frozen => {
                Some(adapter)
            }
            _ => None,
        }
    }

    /// Serves a doorbell in a trapped page.
    pub(super) fn ring(&mut self, page: u64, doorbell: Doorbell, value: u32, now: Time) {
        let (Ok(page), Stage::Active(adapter, _)) = (u32::try_from(page), &mut self.stage) else {
            return;
        };
        if !self.config_space.bus_master() || self.frozen {
            return;
        }
        let memory = self.space.view();
        let turn = Turn {
            memory: &memory,
            now,
        };
        adapter.ring(turn, page, doorbell, value);
        adapter.publish(turn);
        drop(memory);
        self.give_up_if_broken();
    }

    /// Looks at mapped doorbells, at timers, and at entries that wait for room in the guest's rings. True if anything
    /// was done or is left to do: call again before sleeping.
    pub fn poll(&mut self, memory: &View<'_>, now: Time) -> bool {
        if self.frozen {
            return false;
        }
        let was_busy = self.is_busy();
        if was_busy {
            self.go_on(memory, now);
        }
        let Some(adapter) = self.working() else {
            return was_busy;
        };
        let busy = adapter.poll(Turn { memory, now }) | was_busy;
        if adapter.is_broken() {
            self.give_up_if_broken();
        }
        busy
    }

    /// Takes the next request unit for a peer. Deliver it, or copy its payload, before the next call: that publishes
    /// the completion of a datagram, and the guest may reuse the buffer.
    ///
    /// `paths` tells which peers are on this host and which behind an uplink; a request to the latter is one packet,
    /// see [`vrdma_verbs::packet`].
    pub fn next_request(
        &mut self,
        memory: &View<'_>,
        now: Time,
        paths: &mut impl Paths,
    ) -> Option<Request<Region>> {
        self.working()?.next_request(Turn { memory, now }, paths)
    }

    /// Executes a packet from an uplink whose ICRC was checked, or keeps it: packets of one message are kept until its
    /// last one, or [`end_train`](Self::end_train). [`next_reply`](Self::next_reply) returns the answers.
    pub fn receive(&mut self, memory: &View<'_>, packet: &Packet<'_>, now: Time) {
        self.batch_time = now;
        if let Some(adapter) = self.working() {
            adapter.receive(Turn { memory, now }, packet);
        }
    }

    /// Executes the packets that [`receive`](Self::receive) kept to handle them with those that follow: call it after
    /// each batch of packets.
    pub fn end_train(&mut self, memory: &View<'_>, now: Time) {
        self.batch_time = now;
        if let Some(adapter) = self.working() {
            adapter.end_train(Turn { memory, now });
        }
    }

    /// Continues queue pairs that waited for an uplink to take packets again.
    pub fn path_has_room(&mut self) {
        if let Some(adapter) = self.working() {
            adapter.path_has_room();
        }
    }

    /// Takes the next packet that is owed to a peer behind an uplink. Call it after every batch of received packets and
    /// after [`poll`](Self::poll), until there is none or the uplink is full.
    pub fn next_reply(&mut self, now: Time, paths: &mut impl Paths) -> Option<Reply<Region>> {
        self.working()?.next_reply(now, paths)
    }

    /// Executes a peer's request, one of several in a row; [`end_row`](Self::end_row) comes before the peer gets an
    /// answer to any of them. `source` is a view of the peer's memory that holds the payload, or the payload of a
    /// received packet. The answer, if there is one, goes back to the peer; for `unheard` see
    /// [`Hca::deliver_in_row`](vrdma_verbs::Hca::deliver_in_row).
    pub fn deliver_in_row(
        &mut self,
        memory: &View<'_>,
        request: &Request<Region>,
        source: Source<'_, View<'_>>,
        now: Time,
        unheard: &mut Option<Response<Region>>,
    ) -> Option<Response<Region>> {
        self.batch_time = now;
        let turn = Turn { memory, now };
        let adapter = self.working()?;
        adapter.deliver_in_row(turn, request, source, unheard)
    }

    /// Notes what the requests of a row did.
    pub fn end_row(&mut self) {
        if let Some(adapter) = self.working() {
            adapter.end_row();
        }
    }

    /// Takes a peer's answer. `source` is a view of the peer's memory that holds READ data, or the payload of a
    /// received packet.
    pub fn respond(
        &mut self,
        memory: &View<'_>,
        response: &Response<Region>,
        source: Source<'_, View<'_>>,
        now: Time,
    ) {
        self.batch_time = now;
        if let Some(adapter) = self.working() {
            adapter.respond(Turn { memory, now }, response, source);
        }
    }

    /// Shows the guest the effects of the last units.
    pub(super) fn end_batch(&mut self) {
        let (now, may_work) = (self.batch_time, self.may_work());
        let Stage::Active(adapter, _) = &mut self.stage else {
            return;
        };
        if adapter.core.has_unpublished() && may_work {
            let memory = self.space.view();
            adapter.publish(Turn {
                memory: &memory,
                now,
            });
        }
    }

    /// Time at which [`poll`](Self::poll) has something to do without a doorbell.
    pub fn next_deadline(&self) -> Option<Time> {
        match &self.stage {
            Stage::Active(adapter, _) if self.may_work() => adapter.next_deadline(),
            _ => None,
        }
    }
}
