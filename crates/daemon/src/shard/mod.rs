//! The data-path thread: serves the adapters of VMs and processes and carries messages between them.
//!
//! One turn looks at every adapter: doorbells and rings, then what its engine wants to send. A
//! message for another adapter is delivered on the spot, guest memory to guest memory, and its answer
//! goes straight back. Sockets are looked at between turns, at the latest every
//! [`TURNS_BETWEEN_SOCKETS`].
//!
//! The thread owns everything it touches. Others reach it by [`ShardCommand`]s alone.

mod adapter;
pub(crate) mod clock;
mod control;
mod gsi;
mod multicast;
mod path_mtu;
mod poller;
mod sessions;
mod stats;
mod wire;

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use vrdma_memory::{Region, View};
use vrdma_switch::{Fabric, PortId, Way};
use vrdma_verbs::unit::{Request, Route};
use vrdma_verbs::{Pace, Paths, Time};
use vrdma_wire::Qpn;

use crate::plane::{Heard, Inbox, ShardCommand, ShardOptions};
use crate::polling::{Polling, Rest, pin};
use crate::vm::Vm;
use adapter::Adapter;
use clock::Clock;
use poller::{Key, Poller, Ready};
use vrdma_process::cm::Service as ConnectionManager;
use vrdma_process::{Registry, Sessions, ShardId};
use wire::Wires;

/// Requests that one adapter may send in a turn before the next one has its turn. At the unit size
/// of the device this bounds a turn to some tens of milliseconds when every message is huge.
const REQUESTS_A_TURN: u32 = 64;

/// Bytes of frames that one adapter may queue in a turn, but for the last unit's.
const WIRE_BYTES_A_TURN: u64 = 256 << 10;

/// A register access waits at most this many busy turns.
const TURNS_BETWEEN_SOCKETS: u32 = 16;

struct Shard {
    clock: Clock,
    poller: Poller,
    inbox: Inbox<ShardCommand>,
    fabric: Fabric,
    wires: Wires,
    /// By port number; a removed adapter leaves a gap.
    adapters: Vec<Option<Adapter>>,
    sessions: Sessions,
    registry: Registry,
    cm: ConnectionManager,
    polling: Polling,
    turns: u32,
    stopping: bool,
}

/// Starts the thread, on one core alone if that is given. `processes` is the listening socket of
/// [`vrdma_process`].
///
/// # Errors
/// The system is out of threads or descriptors.
pub fn start(
    inbox: Inbox<ShardCommand>,
    heard: Inbox<Heard>,
    processes: OwnedFd,
    options: ShardOptions,
) -> std::io::Result<JoinHandle<()>> {
    let epoll = Poller::open()?;
    thread::Builder::new()
        .name("shard".to_owned())
        .spawn(move || {
            precise_naps();
            if let Some(core) = options.core {
                pin::pin_thread(core);
            }
            let poller = Poller::new(epoll);
            poller.watch(&inbox, Key::Wake);
            poller.watch(&heard, Key::Heard);
            let registry = Registry::default();
            let sessions = Sessions::new(ShardId(0), Some(processes), registry.clone());
            if let Some(listener) = sessions.listener() {
                poller.watch(listener, Key::ProcessListener);
            }
            Shard::new(
                inbox,
                Wires::new(heard),
                poller,
                sessions,
                registry,
                Polling::new(options.poll),
            )
            .run();
        })
}

/// The kernel rounds short sleeps up by 50 us unless told otherwise, ten times a nap.
fn precise_naps() {
    if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
        tracing::warn!("naps of the shard will be long: {error}");
    }
}

impl Shard {
    fn new(
        inbox: Inbox<ShardCommand>,
        wires: Wires,
        poller: Poller,
        sessions: Sessions,
        registry: Registry,
        polling: Polling,
    ) -> Self {
        Self {
            clock: Clock::start(),
            poller,
            inbox,
            fabric: Fabric::new(),
            wires,
            adapters: Vec::new(),
            sessions,
            registry,
            cm: ConnectionManager::new(),
            polling,
            turns: 0,
            stopping: false,
        }
    }

    /// Runs until it is told to stop.
    fn run(mut self) {
        while !self.stopping {
            if self.turn() {
                self.polling.worked(self.clock.now());
                self.turns = self.turns.wrapping_add(1);
                if self.turns.is_multiple_of(TURNS_BETWEEN_SOCKETS) {
                    self.serve_sockets(Some(Duration::ZERO));
                }
            } else {
                self.rest();
            }
        }
    }

    /// One look at every adapter; `true` if any had something to do.
    fn turn(&mut self) -> bool {
        let now = self.clock.now();
        let mut worked = self.receive_wires(now);
        if worked {
            self.interrupt();
        }
        for port in 0..self.adapters.len() {
            worked |= self.serve(port, now);
        }
        worked |= self.tend_cm(now);
        worked |= self.tend_wires(now);
        worked
    }

    fn serve(&mut self, port: usize, now: Time) -> bool {
        let Some(adapter) = &mut self.adapters[port] else {
            return false;
        };
        adapter.settle_memory(now);
        let memory = adapter.memory();
        let view = memory.view();
        let mut worked = adapter.poll(&view, now);
        let number = PortId(port as u32);
        worked |= self.reply(number, &view, now);
        let most = self.wires.queued_bytes + WIRE_BYTES_A_TURN;
        for _ in 0..REQUESTS_A_TURN {
            if self.wires.queued_bytes >= most {
                break;
            }
            let Some(request) = self.next_request(port, &view, now) else {
                break;
            };
            self.carry(port, &view, &request, now);
            worked = true;
        }
        if worked {
            self.interrupt();
        }
        worked
    }

    fn next_request(
        &mut self,
        port: usize,
        memory: &View<'_>,
        now: Time,
    ) -> Option<Request<Region>> {
        let mut paths = Reach {
            fabric: &self.fabric,
            from: PortId(port as u32),
            full: self.wires.holds_up(now),
        };
        self.adapters[port]
            .as_mut()?
            .next_request(memory, now, &mut paths)
    }

    /// Takes a request to the adapter that owns its destination. One that nobody owns is dropped, as
    /// on a wire: the requester's own timers tell its guest.
    fn carry(&mut self, from: usize, memory: &View<'_>, request: &Request<Region>, now: Time) {
        if request.destination == Qpn::MULTICAST {
            return self.multiply(from, memory, request, now);
        }
        let (source, route) = (PortId(from as u32), &request.route);
        let to = match self.fabric.route(source, route.sgid, route.dgid) {
            Ok(Way::Port(PortId(to))) => to as usize,
            Ok(Way::Wire) => return self.transmit(source, memory, request, now),
            Err(_) => return,
        };
        if self.is_for_cm(to, request) {
            self.take_mad(to, memory, request, now);
        } else {
            self.pass((from, to), memory, request, now);
        }
    }

    /// Takes a request to an adapter of this host, and the answer back.
    fn pass(
        &mut self,
        (from, to): (usize, usize),
        memory: &View<'_>,
        request: &Request<Region>,
        now: Time,
    ) {
        if to == from {
            if let Some(adapter) = &mut self.adapters[from] {
                adapter.loop_back(memory, request, now);
            }
        } else if let Ok([Some(adapter), Some(peer)]) = self.adapters.get_disjoint_mut([from, to]) {
            adapter.exchange(peer, memory, request, now);
        }
    }

    /// Raises what the devices asked for. A delivery may concern any adapter, not only the one that
    /// has its turn.
    fn interrupt(&mut self) {
        let now = self.clock.now();
        let adapters = self.adapters.iter_mut().flatten();
        adapters.for_each(|adapter| adapter.interrupt(now));
    }

    fn rest(&mut self) {
        let now = self.clock.now();
        let watching = self.watching();
        let timer = self.until_timer(now);
        let rest = match self.polling.rest(now, watching, timer) {
            Rest::Sleep(rest) => rest,
            Rest::Poll => return self.serve_sockets(Some(Duration::ZERO)),
            Rest::Yield => {
                self.serve_sockets(Some(Duration::ZERO));
                return thread::yield_now();
            }
        };
        // Who rings from here on wakes us; who has rung before is served at once.
        let rest = if self.fall_asleep() {
            rest
        } else {
            Some(Duration::ZERO)
        };
        self.serve_sockets(rest);
        self.wake_up();
    }

    /// Whether a guest program holds doorbells in memory, which wake nobody.
    fn watching(&mut self) -> bool {
        let mut adapters = self.adapters.iter_mut().flatten();
        adapters.any(Adapter::must_be_watched)
    }

    fn until_timer(&self, now: Time) -> Option<Duration> {
        self.adapters
            .iter()
            .flatten()
            .filter_map(Adapter::next_deadline)
            .chain(self.wires.next_deadline(&self.clock))
            .chain(self.cm_deadline())
            .min()
            .map(|deadline| Duration::from_nanos(deadline.0.saturating_sub(now.0)))
    }

    fn serve_sockets(&mut self, patience: Option<Duration>) {
        for ready in self.poller.wait(patience) {
            match ready.key {
                Key::Wake => self.obey(),
                Key::Heard => self.listen(),
                Key::Listener(port) => self.accept(port),
                Key::Connection(port) => self.converse(port, &ready),
                // What came is taken at the next turn, which looks at all of them.
                Key::Wire(uplink) => self.make_room(uplink),
                Key::ProcessListener => self.accept_sessions(),
                Key::Session(session) => self.serve_session(session),
                Key::CmSession(client) => self.serve_cm_session(client),
                Key::Doorbell => {}
            }
        }
    }

    fn accept(&mut self, port: PortId) {
        let Some(vm) = vm_at(&mut self.adapters, port) else {
            return;
        };
        match vm.accept() {
            Ok(false) => {}
            Ok(true) => {
                if let Some(connection) = vm.connection() {
                    self.poller.watch(connection, Key::Connection(port));
                }
            }
            Err(error) => tracing::warn!("a VM could not connect: {error}"),
        }
    }

    fn converse(&mut self, port: PortId, ready: &Ready) {
        let Some(vm) = vm_at(&mut self.adapters, port) else {
            return;
        };
        vm.on_socket(ready.readable, ready.writable);
        if let Some(connection) = vm.connection() {
            self.poller
                .rewatch(connection, Key::Connection(port), connection.wants_write());
        }
        vm.interrupt();
        self.follow_gids(port);
        self.polling.served(self.clock.now());
    }
}

/// Where an adapter's peers are: the fabric's answers, which hold as long as its epoch.
struct Reach<'a> {
    fabric: &'a Fabric,
    from: PortId,
    /// A wire takes no more for now.
    full: bool,
}

impl Paths for Reach<'_> {
    fn epoch(&self) -> u64 {
        self.fabric.epoch()
    }

    fn pace(&mut self, route: &Route) -> Pace {
        match self.fabric.route(self.from, route.sgid, route.dgid) {
            Ok(Way::Wire) => Pace::Wire,
            _ => Pace::Local,
        }
    }

    fn is_full(&self) -> bool {
        self.full
    }

    fn train_bytes(&self) -> u32 {
        wire::TRAIN_BYTES
    }
}

/// The VM with that port number, if there is one.
fn vm_at(adapters: &mut [Option<Adapter>], port: PortId) -> Option<&mut Vm> {
    adapters.get_mut(port.0 as usize)?.as_mut()?.vm()
}
