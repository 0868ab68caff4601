//! Sessions of processes, and how they wake a shard that sleeps.

use vrdma_switch::PortId;
use vrdma_verbs::object::Owner;

use super::Shard;
use super::adapter::Adapter;
use super::poller::Key;
use vrdma_process::{Adapters, Process, Served, SessionId};

/// Clients taken at a time; more wait for the next turn.
const ACCEPTED_A_TURN: usize = 64;

/// The adapters of processes among those of the shard.
pub(super) struct OfProcesses<'a>(pub(super) &'a mut [Option<Adapter>]);

impl Adapters for OfProcesses<'_> {
    fn at(&mut self, port: PortId) -> Option<&mut Process> {
        self.0.get_mut(port.0 as usize)?.as_mut()?.process()
    }
}

impl Shard {
    /// Takes the clients that wait.
    pub(super) fn accept_sessions(&mut self) {
        for _ in 0..ACCEPTED_A_TURN {
            match self.sessions.accept() {
                Ok(Some(session)) => {
                    if let Some(socket) = self.sessions.socket(session) {
                        self.poller.watch(socket, Key::Session(session));
                    }
                }
                Ok(None) => return,
                Err(error) => return tracing::warn!("a process could not connect: {error}"),
            }
        }
    }

    /// Serves what a process asked for.
    pub(super) fn serve_session(&mut self, session: SessionId) {
        let now = self.clock.now();
        // What was posted before the request is under way before the request is served: a program that
        // makes its CQ smaller is judged by what it has sent so far.
        let opened = self.sessions.opened(session);
        if let Some(port) = opened {
            self.serve(port.0 as usize, now);
        }
        match self
            .sessions
            .serve(session, &mut OfProcesses(&mut self.adapters), now)
        {
            Served::Open => {}
            Served::Opened(port, owner) => {
                if let Some(doorbell) = OfProcesses(&mut self.adapters)
                    .at(port)
                    .and_then(|process| process.doorbell_event(owner))
                {
                    self.poller.watch_edges(doorbell, Key::Doorbell);
                }
            }
            Served::ConnectionManagement(socket, greeting) => {
                self.open_cm_session(socket, &greeting)
            }
            Served::Elsewhere(shard, _) => {
                tracing::error!("a session was for {shard:?}, which does not run");
            }
            Served::Closed(open) => {
                if let Some((port, owner)) = open {
                    self.unwatch_doorbell(port, owner);
                }
                self.sessions
                    .close(session, &mut OfProcesses(&mut self.adapters), now);
            }
        }
        if let Some(port) = opened {
            self.follow_groups(port);
        }
        self.polling.served(now);
    }

    /// The client holds the eventfd too, so closing our end would not take it out of the set.
    fn unwatch_doorbell(&mut self, port: PortId, owner: Owner) {
        if let Some(doorbell) = OfProcesses(&mut self.adapters)
            .at(port)
            .and_then(|process| process.doorbell_event(owner))
        {
            self.poller.unwatch(doorbell);
        }
    }

    /// An adapter goes away, and its clients' connections with it.
    pub(super) fn close_sessions_of(&mut self, port: PortId) {
        for owner in self.sessions.close_adapter(port) {
            self.unwatch_doorbell(port, owner);
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
