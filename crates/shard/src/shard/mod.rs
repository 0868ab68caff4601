//! The data-path threads: each serves adapters of VMs and processes and carries messages between them.
//!
//! The carrier ([`vrdma_host`]) does that, turn by turn; here are its clock, its sockets, and how the thread rests when
//! there is nothing to do. Sockets are looked at between turns, at least every [`TURNS_BETWEEN_SOCKETS`].
//!
//! Each thread is a *shard* and owns everything it touches. The control plane reaches it by
//! [`ShardCommand`]s, other shards by rings ([`lanes`]). The first shard takes what comes over uplinks,
//! accepts clients, and serves connection management for all.

mod adapter;
pub(crate) mod clock;
mod control;
mod glance;
mod lanes;
mod load;
mod migrating;
mod moving;
mod paused;
mod poller;
mod rdma_cm;
mod sessions;
mod snapshot;
mod starting;
mod state;
mod stats;
mod uplinks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use vrdma_host::{Event, Host, ShardId};
use vrdma_process::cm::{Past as CmPast, Service as ConnectionManager};
use vrdma_process::{OpeningSession, Registry, Sessions};
use vrdma_switch::PortId;
use vrdma_threads::{Disposal, Inbox, Moves, Snooped};
use vrdma_verbs::Time;

use crate::legacy::Legacy;
use crate::plane::ShardCommand;
use crate::polling::{Polling, Rest};
use crate::process_socket::SocketFile;
use crate::vm::fresh_seed;
use adapter::Adapter;
use clock::Clock;
use glance::Glance;
use lanes::Lanes;
use load::Load;
use migrating::Freezing;
use moving::Leaving;
pub use moving::Moving;
use paused::Paused;
use poller::{Key, Poller, Ready};
use snapshot::Snapshots;
use starting::Parts;
pub use starting::{start, start_after};
use uplinks::UplinkPort;

/// Most busy turns that a register access, or a client that has not rung lately, waits; and if turns are long, the
/// longest time, to which one more turn adds. A look costs less than a microsecond.
const TURNS_BETWEEN_SOCKETS: u32 = 16;
const SOCKETS_WAIT: Duration = Duration::from_micros(50);

/// How long clients' requests, commands and register accesses hold up messages; the last of them may take longer.
const SOCKETS_QUANTUM: Duration = Duration::from_micros(50);

/// How long a shard sleeps if its transfers found a ring full: the other shard is busy with the ring's content.
const LANES_WAIT: Duration = Duration::from_micros(50);

/// The carrier with its members and uplinks.
type Carrier = Host<Adapter, UplinkPort>;

/// Messages from other threads.
struct Mailboxes {
    inbox: Inbox<ShardCommand>,
    /// From the Ethernet thread.
    snooped: Inbox<Snooped>,
}

struct Shard {
    id: ShardId,
    clock: Clock,
    poller: Poller,
    from: Mailboxes,
    host: Carrier,
    sessions: Sessions,
    /// The files of the adapters' sockets, at the first shard.
    process_sockets: BTreeMap<PortId, SocketFile>,
    registry: Registry,
    cm: ConnectionManager,
    /// The rdma_cm state that the worker before has left, until all adapters are there.
    cm_past: Option<CmPast>,
    /// Adapters of the configuration or of the worker before are still to come: nothing is carried, and clients that
    /// ask for them at the process sockets wait.
    waits_for_adapters: bool,
    snapshots: Snapshots,
    /// Descriptors that were ready and have not had their turn.
    ready: VecDeque<Ready>,
    /// VMs whose requests wait: for the end of a long command, or of reads of their memory by other shards. What QEMU
    /// has sent is read without another event.
    busy: BTreeSet<PortId>,
    paused: Paused,
    polling: Polling,
    glance: Glance,
    lanes: Lanes,
    disposal: Disposal,
    legacy: Legacy,
    moves: Arc<Moves>,
    load: Load,
    /// Adapters that wait to leave.
    leaving: Vec<Leaving>,
    /// Adapters that wait to be frozen.
    freezing: Vec<Freezing>,
    /// Sessions that wait for adapters which are on their way here; the limit of sessions bounds them.
    early_sessions: Vec<OpeningSession>,
    /// Busy turns since sockets were served, and when they were.
    turns: u32,
    served: Time,
    stopping: bool,
}

impl Shard {
    fn new(parts: Parts) -> Self {
        let poller = Poller::new(parts.epoll);
        poller.watch(&parts.from.inbox, Key::Wake);
        poller.watch(&parts.from.snooped, Key::Snooped);
        let mut cm = ConnectionManager::new(parts.registry.clone(), fresh_seed());
        let cm_past = match parts.among.id {
            ShardId::FIRST => rdma_cm::follow(&mut cm, &parts.legacy),
            _ => None,
        };
        Self {
            id: parts.among.id,
            clock: parts.clock,
            poller,
            from: parts.from,
            host: Host::among(parts.among, fresh_seed()),
            sessions: parts.sessions,
            process_sockets: BTreeMap::new(),
            cm,
            cm_past,
            waits_for_adapters: true,
            registry: parts.registry,
            snapshots: Snapshots::default(),
            ready: VecDeque::new(),
            busy: BTreeSet::new(),
            paused: Paused::default(),
            polling: Polling::new(parts.poll, parts.core.is_some()),
            glance: Glance::default(),
            lanes: parts.lanes,
            disposal: parts.disposal,
            legacy: parts.legacy,
            moves: parts.moves,
            load: Load::default(),
            leaving: Vec::new(),
            freezing: Vec::new(),
            early_sessions: Vec::new(),
            turns: 0,
            served: Time(0),
            stopping: false,
        }
    }

    /// Runs until it is told to stop.
    fn run(mut self) {
        let mut now = self.clock.now();
        while !self.stopping {
            self.from.inbox.beat();
            now = match self.turn(now) {
                true => self.after_work(now),
                false => self.rest(),
            };
        }
    }

    /// Follows a turn that began at `began` and found work; returns when the next one begins.
    fn after_work(&mut self, began: Time) -> Time {
        let now = self.clock.now();
        self.polling.worked(began, now);
        self.load.worked(began, now);
        self.turns += 1;
        let yields = self.polling.yields_after_work(now, self.host.is_watching());
        if yields {
            thread::yield_now();
        }
        let serves = self.turns >= TURNS_BETWEEN_SOCKETS || now >= self.served + SOCKETS_WAIT;
        if serves {
            self.serve_sockets(Some(Duration::ZERO));
        }
        match yields || serves {
            true => self.clock.now(),
            false => now,
        }
    }

    /// Makes a turn of everything; `true` if any part had something to do.
    fn turn(&mut self, now: Time) -> bool {
        let mut worked = self.lanes.take(&mut self.host, now);
        worked |= self.take_session(now);
        // Packets for adapters that are still to come would be lost, and sent again by a timer.
        if !self.waits_for_adapters {
            worked |= self.carry(now);
        }
        worked |= self.host.flush(now);
        worked |= self.go_on_with_snapshot();
        self.send_away_quiet();
        worked |= self.freeze_quiet();
        self.lanes.send(&mut self.host);
        self.take_events();
        worked
    }

    /// Takes packets from uplinks, and carries what members have to send.
    fn carry(&mut self, now: Time) -> bool {
        let mut worked = self.glance.is_due(now) && self.host.take_from_uplinks(now);
        worked |= self.host.serve_all(now);
        worked |= self.tend_cm(now);
        worked
    }

    /// Does what the carrier asks for.
    fn take_events(&mut self) {
        while let Some(event) = self.host.poll_event() {
            match event {
                Event::Watch { uplink, writable } => {
                    if let Some(port) = self.host.uplink_port(uplink) {
                        self.poller
                            .rewatch(&*port.port(), Key::Wire(uplink), writable);
                    }
                }
                Event::PathMtu { port, mtu } => self.cm.set_mtu(port, mtu),
            }
        }
    }

    /// Follows a turn that found no work; returns when the next one begins.
    fn rest(&mut self) -> Time {
        let now = self.clock.now();
        match self.polling.rest(now, self.host.is_watching()) {
            Rest::Look => return now,
            Rest::Poll => {
                self.serve_sockets(Some(Duration::ZERO));
            }
            Rest::YieldAtOnce => thread::yield_now(),
            Rest::Yield => {
                // What a socket had does not wait until others on this core had their turn.
                if !self.serve_sockets(Some(Duration::ZERO)) {
                    thread::yield_now();
                }
            }
            Rest::Sleep => self.sleep(now),
        }
        self.clock.now()
    }

    fn sleep(&mut self, now: Time) {
        let timer = self.until_timer(now);
        // A ring from here on wakes us; an earlier one is served at once.
        let patience = if self.host.fall_asleep() & self.lanes.fall_asleep() {
            timer
        } else {
            Some(Duration::ZERO)
        };
        self.serve_sockets(patience);
        self.lanes.wake_up();
        self.host.wake_up();
    }

    fn until_timer(&self, now: Time) -> Option<Duration> {
        let deadlines = [
            self.host.next_deadline(),
            self.cm_deadline(),
            self.paused.deadline(),
        ];
        let lanes = self.host.has_transfers().then(|| now + LANES_WAIT);
        let next = deadlines.into_iter().flatten().chain(lanes).min();
        next.map(|deadline| Duration::from_nanos(deadline.0.saturating_sub(now.0)))
    }

    /// Serves ready descriptors, each in its turn, as far as the quantum goes; the rest comes first the next time.
    /// `true` if any was ready.
    fn serve_sockets(&mut self, patience: Option<Duration>) -> bool {
        self.turns = 0;
        self.served = self.clock.now();
        self.end_pauses(self.served);
        if self.ready.is_empty() {
            self.ready = self.poller.wait(patience).into();
            self.served = self.clock.now();
            let named = self.poller.is_behind() || self.ready.iter().any(Ready::is_uplink);
            self.glance.told(named, self.served);
        }
        let busy = std::mem::take(&mut self.busy).into_iter();
        self.ready.extend(busy.map(Ready::connection));
        let found = !self.ready.is_empty();
        while let Some(ready) = self.ready.pop_front() {
            self.serve_socket(&ready);
            if self.clock.now() >= self.served + SOCKETS_QUANTUM {
                break;
            }
        }
        found
    }

    fn serve_socket(&mut self, ready: &Ready) {
        match ready.key {
            Key::Wake => self.obey(),
            Key::Snooped => self.learn(),
            Key::Listener(port) => self.accept(port),
            Key::Connection(port) => self.converse(port, ready),
            // Packets are taken in the next turn, which looks at all uplinks.
            Key::Wire(uplink) => self.host.make_room(uplink),
            Key::ProcessListener(entrance) => self.accept_sessions(entrance),
            Key::Session(session) => self.serve_session(session),
            Key::CmSession(client) => self.serve_cm_session(client),
            Key::Doorbell(port, owner) => {
                let now = self.clock.now();
                self.take_doorbells(port, owner, now);
            }
        }
    }

    fn accept(&mut self, port: PortId) {
        let now = self.clock.now();
        let is_away = self.host.is_away(port);
        let Some(vm) = self.host.touch(port, now).and_then(Adapter::vm) else {
            return;
        };
        match vm.accept() {
            Ok(false) => {}
            Ok(true) => {
                if let Some(connection) = vm.connection() {
                    self.poller.watch(connection, Key::Connection(port));
                }
                if !is_away {
                    vm.warn_of_migration();
                }
                self.host.forget_learned(port);
            }
            Err(error) => self.pause(Key::Listener(port), &error),
        }
    }

    fn converse(&mut self, port: PortId, ready: &Ready) {
        if !self.await_quiet(port) {
            self.busy.insert(port);
            return;
        }
        let now = self.clock.now();
        let Some(vm) = self.host.touch(port, now).and_then(Adapter::vm) else {
            return;
        };
        let stood_still = vm.is_stopped_by_client();
        if let Some(gone) = vm.on_socket(ready.readable, ready.writable) {
            self.poller.unwatch(&gone);
        }
        if vm.is_busy() {
            self.busy.insert(port);
        }
        self.poller.rewatch_qemu(port, vm);
        vm.interrupt();
        let stands_still = vm.is_stopped_by_client();
        match vm.take_relocated() {
            Some(relocated) => self.follow_client(port, relocated),
            None if stands_still && !stood_still => self.host.tell_paused(port, now),
            None if stood_still && !stands_still => self.host.tell_resumed(port, now),
            None => {}
        }
        self.host.release(port);
        self.host.follow_gids(port, now);
        self.polling.served(self.clock.now());
    }

    /// Takes the stations that the Ethernet thread has snooped.
    fn learn(&mut self) {
        self.from.snooped.clear();
        let now = self.clock.now();
        while let Some(snooped) = self.from.snooped.take() {
            match snooped {
                Snooped::Address {
                    group,
                    gid,
                    neighbour,
                } => self.host.learn(group, gid, neighbour, now),
                Snooped::Query { group, frame } => self.host.hear_query(group, &frame, now),
            }
        }
    }
}
