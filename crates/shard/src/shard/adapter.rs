//! An adapter as the carrier sees it, with either front end.

use std::sync::Arc;

use vrdma_adapter::{GidChange, Receiving, Sending};
use vrdma_host::{Doorbells, Member};
use vrdma_inventory::AdapterSpec;
use vrdma_memory::{Region, Space, View};
use vrdma_process::{OnDemand, Process, Turn};
use vrdma_switch::Policy;
use vrdma_verbs::packet::Reply;
use vrdma_verbs::unit::{Request, Response, Route};
use vrdma_verbs::{Paths, Source, Time};
use vrdma_wire::{Gid, Mtu, Packet};

use crate::vm::Vm;

/// One adapter.
pub(super) enum Adapter {
    /// A VM's device.
    Vm(Box<Vm>),
    /// An adapter that processes open.
    Process {
        /// Its specification from the control plane.
        spec: Box<AdapterSpec>,
        /// The adapter itself.
        process: OnDemand,
    },
}

impl Adapter {
    pub(super) fn spec(&self) -> &AdapterSpec {
        match self {
            Self::Vm(vm) => vm.spec(),
            Self::Process { spec, .. } => spec,
        }
    }

    /// Returns the VM, if the adapter is a VM's.
    pub(super) fn vm(&mut self) -> Option<&mut Vm> {
        match self {
            Self::Vm(vm) => Some(vm),
            Self::Process { .. } => None,
        }
    }

    /// Returns the adapter of processes, for a caller that uses it.
    pub(super) fn process(&mut self) -> Option<&mut Process> {
        match self {
            Self::Vm(_) => None,
            Self::Process { process, .. } => Some(process.make()),
        }
    }
}

impl Member for Adapter {
    type Region = Region;
    type Memory = Arc<Space>;
    type View<'a> = View<'a>;

    fn name(&self) -> &str {
        self.spec().name.as_str()
    }

    fn memory(&self) -> Arc<Space> {
        match self {
            Self::Vm(vm) => vm.memory(),
            Self::Process { process, .. } => process.memory(),
        }
    }

    fn view(memory: &Arc<Space>) -> View<'_> {
        memory.view()
    }

    fn renew_memory(&mut self, now: Time) {
        match self {
            Self::Vm(vm) => vm.renew_memory(now),
            Self::Process { .. } => {}
        }
    }

    fn poll(&mut self, memory: &View<'_>, now: Time) -> bool {
        match self {
            Self::Vm(vm) => vm.poll(memory, now),
            Self::Process { process, .. } => process
                .get_mut()
                .is_some_and(|process| process.poll(Turn { memory, now })),
        }
    }

    fn next_request(
        &mut self,
        memory: &View<'_>,
        now: Time,
        paths: &mut impl Paths,
    ) -> Option<Request<Region>> {
        match self {
            Self::Vm(vm) => vm.device().next_request(memory, now, paths),
            Self::Process { process, .. } => {
                let process = process.get_mut()?;
                process.next_request(Turn { memory, now }, paths)
            }
        }
    }

    fn deliver_in_row(
        &mut self,
        memory: &View<'_>,
        request: &Request<Region>,
        source: Source<'_, View<'_>>,
        now: Time,
        unheard: &mut Option<Response<Region>>,
    ) -> Option<Response<Region>> {
        match self {
            Self::Vm(vm) => {
                let device = vm.device();
                device.deliver_in_row(memory, request, source, now, unheard)
            }
            Self::Process { process, .. } => {
                let turn = Turn { memory, now };
                let process = process.make();
                process.deliver_in_row(turn, request, source, unheard)
            }
        }
    }

    fn end_row(&mut self) {
        match self {
            Self::Vm(vm) => vm.device().end_row(),
            Self::Process { process, .. } => {
                if let Some(process) = process.get_mut() {
                    process.end_row();
                }
            }
        }
    }

    fn respond(
        &mut self,
        memory: &View<'_>,
        response: &Response<Region>,
        source: Source<'_, View<'_>>,
        now: Time,
    ) {
        match self {
            Self::Vm(vm) => vm.device().respond(memory, response, source, now),
            Self::Process { process, .. } => {
                if let Some(process) = process.get_mut() {
                    process.respond(Turn { memory, now }, response, source);
                }
            }
        }
    }

    /// PVRDMA devices have none.
    fn fan_out(&self, request: &Request<Region>) -> Vec<Request<Region>> {
        match self {
            Self::Vm(_) => Vec::new(),
            Self::Process { process, .. } => {
                let listening = process.get().map(|it| it.hca().fan_out(request));
                listening.unwrap_or_default()
            }
        }
    }

    fn receive(&mut self, memory: &View<'_>, packet: &Packet<'_>, now: Time) {
        match self {
            Self::Vm(vm) => vm.device().receive(memory, packet, now),
            Self::Process { process, .. } => process.make().receive(Turn { memory, now }, packet),
        }
    }

    fn end_train(&mut self, now: Time) {
        let space = self.memory();
        let memory = &space.view();
        match self {
            Self::Vm(vm) => vm.device().end_train(memory, now),
            Self::Process { process, .. } => {
                if let Some(process) = process.get_mut() {
                    process.end_train(Turn { memory, now });
                }
            }
        }
    }

    fn next_reply(&mut self, now: Time, paths: &mut impl Paths) -> Option<Reply<Region>> {
        match self {
            Self::Vm(vm) => vm.device().next_reply(now, paths),
            Self::Process { process, .. } => process.get_mut()?.next_reply(now, paths),
        }
    }

    fn path_has_room(&mut self) {
        match self {
            Self::Vm(vm) => vm.device().path_has_room(),
            Self::Process { process, .. } => {
                if let Some(process) = process.get_mut() {
                    process.path_has_room();
                }
            }
        }
    }

    fn peers(&self) -> Vec<Route> {
        match self {
            Self::Vm(vm) => vm.peers(),
            Self::Process { process, .. } => process
                .get()
                .map_or_else(Vec::new, |it| it.hca().peers().collect()),
        }
    }

    fn has_peer(&self, peer: Gid) -> bool {
        match self {
            Self::Vm(vm) => vm.has_peer(peer),
            Self::Process { process, .. } => {
                process.get().is_some_and(|it| it.hca().has_peer(peer))
            }
        }
    }

    fn pause_peer(&mut self, peer: Gid) {
        match self {
            Self::Vm(vm) => vm.device().pause_peer(peer),
            Self::Process { process, .. } => {
                if let Some(process) = process.get_mut() {
                    process.pause_peer(peer);
                }
            }
        }
    }

    fn resume_peer(&mut self, peer: Gid) {
        match self {
            Self::Vm(vm) => vm.device().resume_peer(peer),
            Self::Process { process, .. } => {
                if let Some(process) = process.get_mut() {
                    process.resume_peer(peer);
                }
            }
        }
    }

    /// Processes stay at their host.
    fn is_still(&self) -> bool {
        match self {
            Self::Vm(vm) => vm.is_still(),
            Self::Process { .. } => false,
        }
    }

    fn epoch(&self) -> u64 {
        match self {
            Self::Vm(vm) => vm.epoch(),
            Self::Process { .. } => 0,
        }
    }

    fn publish(&mut self, now: Time) {
        match self {
            Self::Vm(vm) => vm.interrupt(),
            Self::Process { process, .. } => {
                if let Some(process) = process.get_mut() {
                    process.finish_batch(now);
                }
            }
        }
    }

    fn is_runnable(&self) -> bool {
        match self {
            Self::Vm(vm) => vm.activity().runnable,
            Self::Process { process, .. } => process.get().is_some_and(Process::is_runnable),
        }
    }

    fn policy(&self) -> Option<&Arc<Policy>> {
        Some(&self.spec().policy)
    }

    fn doorbells(&self) -> Doorbells {
        match self {
            Self::Vm(vm) if vm.activity().live_contexts > 0 => Doorbells::Silent,
            Self::Process { process, .. } if process.get().is_some_and(Process::is_polled) => {
                Doorbells::Polled
            }
            _ => Doorbells::Wake,
        }
    }

    /// A guest's doorbells are read by its device, in [`poll`](Self::poll): a VM gets each turn for it.
    fn has_rung(&self, now: Time) -> bool {
        match self {
            Self::Vm(_) => true,
            Self::Process { process, .. } => process.get().is_some_and(|it| it.has_rung(now)),
        }
    }

    fn sleep(&mut self) -> bool {
        match self {
            Self::Vm(_) => true,
            Self::Process { process, .. } => process.get().is_none_or(Process::sleep),
        }
    }

    fn awake(&mut self) {
        if let Self::Process { process, .. } = self
            && let Some(process) = process.get()
        {
            process.awake();
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        match self {
            Self::Vm(vm) => vm.next_deadline(),
            Self::Process { process, .. } => process.get()?.next_deadline(),
        }
    }

    fn take_gid_change(&mut self) -> Option<GidChange> {
        match self {
            Self::Vm(vm) => vm.device().take_gid_change(),
            Self::Process { process, .. } => process.take_gid_change(),
        }
    }

    fn take_groups(&mut self) -> Option<Vec<Gid>> {
        match self {
            Self::Vm(_) => None,
            Self::Process { process, .. } => process.get_mut()?.take_groups(),
        }
    }

    fn set_mtu(&mut self, mtu: Mtu) {
        match self {
            Self::Vm(vm) => vm.device().set_mtu(mtu),
            Self::Process { process, .. } => process.set_mtu(mtu),
        }
    }

    /// Guests have a communication manager of their own.
    fn has_gsi(&self) -> bool {
        matches!(self, Self::Vm(_))
    }
}
