//! Processes at the door, and how they wake a shard that sleeps.

use vrdma_switch::PortId;
use vrdma_verbs::object::Owner;

use super::Shard;
use super::adapter::Adapter;
use super::poller::Key;
use crate::process::{Adapters, Process, Visit, Visitor};

/// Clients taken at a time; more wait for the next turn.
const ACCEPTED_A_TURN: usize = 64;

impl Adapters for Vec<Option<Adapter>> {
    fn at(&mut self, port: PortId) -> Option<&mut Process> {
        self.get_mut(port.0 as usize)?.as_mut()?.process()
    }

    fn ports(&self) -> Vec<PortId> {
        let adapters = self.iter().flatten();
        let of_processes = adapters.filter(|adapter| matches!(adapter, Adapter::Process(_)));
        of_processes.map(|adapter| adapter.spec().port).collect()
    }
}

impl Shard {
    /// Takes the clients that wait.
    pub(super) fn let_in(&mut self) {
        for _ in 0..ACCEPTED_A_TURN {
            match self.door.accept() {
                Ok(Some(visitor)) => {
                    if let Some(socket) = self.door.socket(visitor) {
                        self.poller.watch(socket, Key::Visitor(visitor));
                    }
                }
                Ok(None) => return,
                Err(error) => return tracing::warn!("a process could not connect: {error}"),
            }
        }
    }

    /// Serves what a process asked for.
    pub(super) fn attend(&mut self, visitor: Visitor) {
        let now = self.clock.now();
        // What was posted before the request is under way before the request is served: a program that
        // makes its CQ smaller is judged by what it has sent so far.
        if let Some(port) = self.door.opened(visitor) {
            self.serve(port.0 as usize, now);
        }
        match self.door.visit(visitor, &mut self.adapters, now) {
            Visit::Stays => {}
            Visit::Opened(port, owner) => {
                if let Some(bell) = self
                    .adapters
                    .at(port)
                    .and_then(|process| process.bell(owner))
                {
                    self.poller.watch_edges(bell, Key::Bell);
                }
            }
            Visit::Greets(socket, greeting) => self.introduce(socket, &greeting),
            Visit::Leaves(open) => {
                if let Some((port, owner)) = open {
                    self.unwatch_bell(port, owner);
                }
                self.door.dismiss(visitor, &mut self.adapters, now);
            }
        }
        self.follow_groups();
        self.last_work = now;
    }

    /// The client holds the eventfd too, so closing our end would not take it out of the set.
    fn unwatch_bell(&mut self, port: PortId, owner: Owner) {
        if let Some(bell) = self
            .adapters
            .at(port)
            .and_then(|process| process.bell(owner))
        {
            self.poller.unwatch(bell);
        }
    }

    /// An adapter goes away, and its clients' connections with it.
    pub(super) fn evict(&mut self, port: PortId) {
        for owner in self.door.evict(port) {
            self.unwatch_bell(port, owner);
        }
    }

    /// Says on all doorbell pages that the shard sleeps; false if somebody has rung.
    pub(super) fn fall_asleep(&self) -> bool {
        let adapters = self.adapters.iter().flatten();
        // Every page must be marked, so no short cut.
        adapters.filter(|adapter| !adapter.sleep()).count() == 0
    }

    pub(super) fn wake_up(&self) {
        self.adapters.iter().flatten().for_each(Adapter::awake);
    }
}
