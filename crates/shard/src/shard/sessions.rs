//! Sessions of processes, and their doorbells.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;

use vrdma_adapter::ShardId;
use vrdma_process::{Adapters, Entrance, OpeningSession, Process, Served, SessionId};
use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_verbs::object::Owner;

use super::adapter::Adapter;
use super::poller::Key;
use super::{Carrier, Shard};

/// Most clients taken at a time; more wait for the next turn.
const ACCEPTED_A_TURN: usize = 8;

/// The adapters of processes among those of the shard.
struct OfProcesses<'a> {
    host: &'a mut Carrier,
    now: Time,
}

impl Adapters for OfProcesses<'_> {
    fn at(&mut self, port: PortId) -> Option<&mut Process> {
        self.host.touch(port, self.now)?.process()
    }

    /// Follows the multicast groups: datagrams to a group that was joined come from other shards, too.
    fn put_in_force(&mut self, port: PortId) {
        follow_groups(self.host, port, self.now);
    }
}

impl Shard {
    /// Watches the listening sockets.
    pub(super) fn watch_entrances(&self) {
        for entrance in self.sessions.entrances() {
            if let Some(listener) = self.sessions.listener(entrance) {
                let key = Key::ProcessListener(entrance);
                self.poller.watch(listener, key);
            }
        }
    }

    /// Accepts clients that wait.
    pub(super) fn accept_sessions(&mut self, entrance: Entrance) {
        for _ in 0..ACCEPTED_A_TURN {
            match self.sessions.accept(entrance) {
                Ok(Some(session)) => {
                    if let Some(socket) = self.sessions.socket(session) {
                        self.poller.watch(socket, Key::Session(session));
                    }
                }
                Ok(None) => return,
                Err(error) => return self.pause(Key::ProcessListener(entrance), &error),
            }
        }
    }

    /// Serves a request of a process.
    pub(super) fn serve_session(&mut self, session: SessionId) {
        let now = self.clock.now();
        // Requests posted before this one get under way first: a program that makes its CQ smaller is judged by what it
        // has sent so far.
        let open = self.sessions.open_at(session);
        if let Some((port, owner)) = open {
            self.take_doorbells(port, owner, now);
            self.host.serve(port, now);
            if !self.await_quiet(port) {
                return;
            }
        }
        let mut adapters = OfProcesses {
            host: &mut self.host,
            now,
        };
        match self.sessions.serve(session, &mut adapters, now) {
            Served::Open => {}
            Served::Opened(port, owner) => {
                self.watch_doorbell(port, owner);
            }
            Served::ConnectionManagement(greeting) => self.open_cm_session(*greeting),
            Served::Elsewhere(shard, opening) => {
                self.poller.unwatch(opening.socket());
                self.pass_session(shard, opening);
            }
            Served::Closed(open) => self.close_session(session, open, now),
        }
        if let Some((port, _)) = open {
            self.host.release(port);
            self.follow_groups(port, now);
        }
        self.polling.served(now);
    }

    fn close_session(&mut self, id: SessionId, open: Option<(PortId, Owner)>, now: Time) {
        if let Some((port, owner)) = open {
            self.unwatch_doorbell(port, owner);
        }
        if let Some(socket) = self.sessions.socket(id) {
            self.poller.unwatch(socket);
        }
        let mut adapters = OfProcesses {
            host: &mut self.host,
            now,
        };
        self.sessions.close(id, &mut adapters, now);
    }

    /// Ends a context that has no session.
    pub(super) fn close_context(&mut self, port: PortId, owner: Owner) {
        let now = self.clock.now();
        if let Some(process) = self.host.touch(port, now).and_then(Adapter::process) {
            process.close(owner, now);
        }
    }

    /// Passes a session on to the shard that has its adapter. It waits here if the adapter is on its way here.
    fn pass_session(&mut self, to: ShardId, opening: Box<OpeningSession>) {
        if to == self.id {
            self.early_sessions.push(*opening);
        } else {
            self.lanes.pass_session(to, opening);
        }
    }

    /// Takes one of the sessions that other shards passed on; `true` if there was one.
    pub(super) fn take_session(&mut self, now: Time) -> bool {
        let opening = self.lanes.take_session();
        let came = opening.is_some();
        if let Some(opening) = opening {
            self.adopt_opening(*opening, now);
        }
        came
    }

    /// Answers clients that said hello to an adapter before it came.
    pub(super) fn adopt_early(&mut self, now: Time) {
        for opening in std::mem::take(&mut self.early_sessions) {
            self.adopt_opening(opening, now);
        }
    }

    fn adopt_opening(&mut self, opening: OpeningSession, now: Time) {
        let mut adapters = OfProcesses {
            host: &mut self.host,
            now,
        };
        let Some((id, served)) = self.sessions.adopt(opening, &mut adapters) else {
            return;
        };
        if let Some(socket) = self.sessions.socket(id) {
            self.poller.watch(socket, Key::Session(id));
        }
        match served {
            Served::Opened(port, owner) => self.watch_doorbell(port, owner),
            Served::Elsewhere(shard, opening) => self.pass_session(shard, opening),
            Served::Closed(open) => self.close_session(id, open, now),
            Served::Open | Served::ConnectionManagement(..) => {}
        }
    }

    pub(super) fn watch_doorbell(&self, port: PortId, owner: Owner) {
        if let Some(doorbell) = self.doorbell_event(port, owner) {
            let key = Key::Doorbell(port, owner);
            self.poller.watch_edges(doorbell, key);
        }
    }

    /// Notes that a client rang: its doorbells are polled in each turn for a while.
    pub(super) fn take_doorbells(&mut self, port: PortId, owner: Owner, now: Time) {
        if let Some(process) = self.host.touch(port, now).and_then(Adapter::process) {
            process.poll_doorbells(owner, now);
        }
    }

    fn doorbell_event(&self, port: PortId, owner: Owner) -> Option<BorrowedFd<'_>> {
        match self.host.member(port)? {
            Adapter::Process { process, .. } => process.get()?.doorbell_event(owner),
            Adapter::Vm(_) => None,
        }
    }

    /// Stops watching a client's doorbell. The client holds the eventfd, too, so closing our end would not take it out
    /// of the set.
    pub(super) fn unwatch_doorbell(&self, port: PortId, owner: Owner) {
        if let Some(doorbell) = self.doorbell_event(port, owner) {
            self.poller.unwatch(doorbell);
        }
    }

    /// Closes the sessions of an adapter that goes away.
    pub(super) fn close_sessions_of(&mut self, port: PortId) {
        for socket in self.sessions.sockets_of(port) {
            self.poller.unwatch(socket);
        }
        for owner in self.sessions.close_adapter(port) {
            self.unwatch_doorbell(port, owner);
        }
    }

    /// Tells the switches in front of this shard's uplinks which groups an adapter that is new here listens to.
    pub(super) fn listen_again(&mut self, port: PortId, now: Time) {
        if let Some(process) = self.host.touch(port, now).and_then(Adapter::process) {
            process.tell_groups_again();
        }
        self.follow_groups(port, now);
    }

    /// Follows the multicast groups of an adapter of processes, which may have changed.
    fn follow_groups(&mut self, port: PortId, now: Time) {
        follow_groups(&mut self.host, port, now);
    }
}

fn follow_groups(host: &mut Carrier, port: PortId, now: Time) {
    let spec = host.member(port).map(Adapter::spec);
    let ip = spec.and_then(|spec| ipv4(spec.only_ip()?));
    host.follow_groups(port, ip, now);
}

fn ipv4(ip: IpAddr) -> Option<Ipv4Addr> {
    match ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    }
}
