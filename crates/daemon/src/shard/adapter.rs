//! An adapter as the shard sees it, whatever stands behind it.

use std::sync::Arc;

use vrdma_adapter::GidChange;
use vrdma_adapter::{Receiving, Sending};
use vrdma_memory::{Region, Space, View};
use vrdma_process::{Process, Turn};
use vrdma_verbs::packet::Reply;
use vrdma_verbs::unit::{Request, Response};
use vrdma_verbs::{Paths, Source, Time};

use vrdma_wire::Packet;

use crate::plane::AdapterSpec;

use crate::vm::Vm;

/// One adapter.
pub(super) enum Adapter {
    /// A VM's device.
    Vm(Box<Vm>),
    /// What processes open.
    Process {
        /// What the control plane said of it.
        spec: Box<AdapterSpec>,
        /// The adapter itself.
        process: Box<Process>,
    },
}

impl Adapter {
    pub(super) fn spec(&self) -> &AdapterSpec {
        match self {
            Self::Vm(vm) => vm.spec(),
            Self::Process { spec, .. } => spec,
        }
    }

    /// The VM, if it is one's.
    pub(super) fn vm(&mut self) -> Option<&mut Vm> {
        match self {
            Self::Vm(vm) => Some(vm),
            Self::Process { .. } => None,
        }
    }

    /// What processes open, if it is that.
    pub(super) fn process(&mut self) -> Option<&mut Process> {
        match self {
            Self::Vm(_) => None,
            Self::Process { process, .. } => Some(process),
        }
    }

    /// What the adapter's regions are reached through.
    pub(super) fn memory(&self) -> Arc<Space> {
        match self {
            Self::Vm(vm) => vm.memory(),
            Self::Process { process, .. } => process.memory(),
        }
    }

    /// Lets the adapter look at its memory again once that has come to rest.
    pub(super) fn settle_memory(&mut self, now: Time) {
        match self {
            Self::Vm(vm) => vm.settle_memory(now),
            Self::Process { .. } => {}
        }
    }

    /// Looks at doorbells, rings and timers; `true` if there was anything to do.
    pub(super) fn poll(&mut self, memory: &View<'_>, now: Time) -> bool {
        match self {
            Self::Vm(vm) => vm.poll(memory, now),
            Self::Process { process, .. } => process.poll(Turn { memory, now }),
        }
    }

    /// The next request for whoever owns its destination; `paths` tells which peers are behind a
    /// wire.
    pub(super) fn next_request(
        &mut self,
        memory: &View<'_>,
        now: Time,
        paths: &mut impl Paths,
    ) -> Option<Request<Region>> {
        match self {
            Self::Vm(vm) => vm.device().next_request(memory, now, paths),
            Self::Process { process, .. } => process.next_request(Turn { memory, now }, paths),
        }
    }

    /// Takes in a packet from a wire.
    pub(super) fn receive(&mut self, memory: &View<'_>, packet: &Packet<'_>, now: Time) {
        match self {
            Self::Vm(vm) => vm.device().receive(memory, packet, now),
            Self::Process { process, .. } => process.receive(Turn { memory, now }, packet),
        }
    }

    /// Takes in what [`receive`](Self::receive) may have kept to take it in with what follows.
    pub(super) fn end_train(&mut self, now: Time) {
        let space = self.memory();
        let memory = &space.view();
        match self {
            Self::Vm(vm) => vm.device().end_train(memory, now),
            Self::Process { process, .. } => process.end_train(Turn { memory, now }),
        }
    }

    /// Wires take packets again.
    pub(super) fn wire_has_room(&mut self) {
        match self {
            Self::Vm(vm) => vm.device().wire_has_room(),
            Self::Process { process, .. } => process.wire_has_room(),
        }
    }

    /// What is owed next to peers behind wires: one packet, or READ data of up to `train_bytes`.
    pub(super) fn next_reply(&mut self, train_bytes: u32, now: Time) -> Option<Reply<Region>> {
        match self {
            Self::Vm(vm) => vm.device().next_reply(train_bytes, now),
            Self::Process { process, .. } => process.next_reply(train_bytes, now),
        }
    }

    /// Executes a request that came for this adapter.
    pub(super) fn deliver(
        &mut self,
        memory: &View<'_>,
        request: &Request<Region>,
        source: Source<'_, View<'_>>,
        now: Time,
    ) -> Option<Response<Region>> {
        match self {
            Self::Vm(vm) => vm.device().deliver(memory, request, source, now),
            Self::Process { process, .. } => process.deliver(Turn { memory, now }, request, source),
        }
    }

    /// Takes the answer to a request of this adapter.
    pub(super) fn respond(
        &mut self,
        memory: &View<'_>,
        response: &Response<Region>,
        source: Source<'_, View<'_>>,
        now: Time,
    ) {
        match self {
            Self::Vm(vm) => vm.device().respond(memory, response, source, now),
            Self::Process { process, .. } => {
                process.respond(Turn { memory, now }, response, source);
            }
        }
    }

    /// A copy of a datagram to many for each queue pair that listens. PVRDMA devices have none.
    pub(super) fn fan_out(&self, request: &Request<Region>) -> Vec<Request<Region>> {
        match self {
            Self::Vm(_) => Vec::new(),
            Self::Process { process, .. } => process.hca().fan_out(request),
        }
    }

    /// Carries a request of this adapter to itself, and the answer back.
    pub(super) fn loop_back(&mut self, memory: &View<'_>, request: &Request<Region>, now: Time) {
        if let Some(response) = self.deliver(memory, request, Source::Memory(memory), now) {
            self.respond(memory, &response, Source::Memory(memory), now);
        }
    }

    /// Carries a request of this adapter to another one, and the answer back.
    pub(super) fn exchange(
        &mut self,
        peer: &mut Self,
        memory: &View<'_>,
        request: &Request<Region>,
        now: Time,
    ) {
        let theirs = peer.memory();
        let theirs = theirs.view();
        let answer = peer.deliver(&theirs, request, Source::Memory(memory), now);
        if let Some(response) = answer {
            self.respond(memory, &response, Source::Memory(&theirs), now);
        }
    }

    /// Tells the owner what happened since the last call.
    pub(super) fn interrupt(&mut self, now: Time) {
        match self {
            Self::Vm(vm) => vm.interrupt(),
            Self::Process { process, .. } => process.finish_batch(now),
        }
    }

    /// Whether doorbells lie in memory and wake nobody.
    pub(super) fn must_be_watched(&mut self) -> bool {
        match self {
            Self::Vm(vm) => vm.device().activity().live_contexts > 0,
            Self::Process { .. } => false,
        }
    }

    /// When the adapter wants its turn without a doorbell.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        match self {
            Self::Vm(vm) => vm.next_deadline(),
            Self::Process { process, .. } => process.next_deadline(),
        }
    }

    /// The next change of the addresses at which the adapter is reached, oldest first.
    pub(super) fn take_gid_change(&mut self) -> Option<GidChange> {
        match self {
            Self::Vm(vm) => vm.device().take_gid_change(),
            Self::Process { process, .. } => process.take_gid_change(),
        }
    }

    /// Makes who rings from now on wake the shard; false if somebody has rung already.
    pub(super) fn sleep(&self) -> bool {
        match self {
            Self::Vm(_) => true,
            Self::Process { process, .. } => process.sleep(),
        }
    }

    /// Nobody has to wake the shard.
    pub(super) fn awake(&self) {
        if let Self::Process { process, .. } = self {
            process.awake();
        }
    }
}
