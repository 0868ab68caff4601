//! Sessions of processes, and how they wake a shard that sleeps.

use std::net::{IpAddr, Ipv4Addr};

use vrdma_process::{Adapters, Process, Served, SessionId};
use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_verbs::object::Owner;

use super::adapter::Adapter;
use super::poller::Key;
use super::{Carrier, Shard};

/// Clients taken at a time; more wait for the next turn.
const ACCEPTED_A_TURN: usize = 64;

/// The adapters of processes among those of the shard.
struct OfProcesses<'a>(&'a mut Carrier);

impl Adapters for OfProcesses<'_> {
    fn at(&mut self, port: PortId) -> Option<&mut Process> {
        self.0.member_mut(port)?.process()
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
            self.host.serve(port, now);
        }
        match self
            .sessions
            .serve(session, &mut OfProcesses(&mut self.host), now)
        {
            Served::Open => {}
            Served::Opened(port, owner) => {
                if let Some(doorbell) = OfProcesses(&mut self.host)
                    .at(port)
                    .and_then(|process| process.doorbell_event(owner))
                {
                    self.poller.watch_edges(doorbell, Key::Doorbell);
                }
            }
            Served::ConnectionManagement(socket, greeting) => {
                self.open_cm_session(socket, &greeting)
            }
            Served::Closed(open) => {
                if let Some((port, owner)) = open {
                    self.unwatch_doorbell(port, owner);
                }
                self.sessions
                    .close(session, &mut OfProcesses(&mut self.host), now);
            }
        }
        if let Some(port) = opened {
            self.follow_groups(port, now);
        }
        self.polling.served(now);
    }

    /// The client holds the eventfd too, so closing our end would not take it out of the set.
    fn unwatch_doorbell(&mut self, port: PortId, owner: Owner) {
        if let Some(doorbell) = OfProcesses(&mut self.host)
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
        let adapters = self.host.members();
        // Every page must be marked, so no short cut.
        adapters.filter(|(_, adapter)| !adapter.sleep()).count() == 0
    }

    pub(super) fn wake_up(&self) {
        self.host.members().for_each(|(_, adapter)| adapter.awake());
    }

    /// What an adapter of processes listens to may have changed.
    fn follow_groups(&mut self, port: PortId, now: Time) {
        let spec = self.host.member(port).map(Adapter::spec);
        let ip = spec.and_then(|spec| ipv4(spec.ip?));
        self.host.follow_groups(port, ip, now);
    }
}

fn ipv4(ip: IpAddr) -> Option<Ipv4Addr> {
    match ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    }
}
