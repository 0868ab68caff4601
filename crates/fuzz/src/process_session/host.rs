//! A shard without a thread: sessions, two adapters, and a carrier between them.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use vrdma_adapter::{Receiving, Sending, ShardId};
use vrdma_keep::{Inherited, Record, Records};
use vrdma_memory::Region;
use vrdma_process::{
    Adapters, Entrance, Means, OnDemand, Process, ProcessSpec, Registry, Remembered, Revived,
    Served, SessionId, Sessions, Turn,
};
use vrdma_switch::{GroupId, PortId};
use vrdma_verbs::unit::Request;
use vrdma_verbs::{Pace, Source, Time};
use vrdma_wire::{Gid, Mac};

const ADAPTERS: u8 = 2;

/// Most units that are carried before the script continues.
const UNITS_MAX: usize = 256;

/// Most turns that freeing takes.
const TURNS_MAX: usize = 1 << 16;

/// Users and their threads outlive a script; their quotas are given back at its end.
static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    // Writing to a reader that is gone must be an error for the daemon and not a signal, as in every program with
    // Rust's own start.
    let told = Arc::<AtomicBool>::default();
    signal_hook::flag::register(signal_hook::consts::SIGPIPE, told)
        .expect("signals can be handled");
    Shared {
        registry: Registry::default(),
        listener: listener().expect("a socket can be made"),
    }
});

struct Shared {
    registry: Registry,
    listener: OwnedFd,
}

/// An abstract name for the socket, of this process alone.
fn name() -> Result<SocketAddrUnix, Errno> {
    let name = format!("vrdma-fuzz-{}", std::process::id());
    SocketAddrUnix::new_abstract_name(name.as_bytes())
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn listener() -> Result<OwnedFd, Errno> {
    let socket = socket(SocketFlags::NONBLOCK)?;
    bind(&socket, &name()?)?;
    listen(&socket, 8)?;
    Ok(socket)
}

pub(super) struct World {
    pub(super) sessions: Sessions,
    adapters: Pair,
    pub(super) now: Time,
}

/// The adapters.
struct Pair([OnDemand; ADAPTERS as usize]);

impl Adapters for Pair {
    fn at(&mut self, port: PortId) -> Option<&mut Process> {
        Some(self.0.get_mut(port.0 as usize)?.make())
    }

    /// There is no fabric to be told.
    fn put_in_force(&mut self, _: PortId) {}
}

fn spec(number: u8) -> ProcessSpec {
    ProcessSpec {
        name: format!("c{number}").into(),
        portgroup: "blue".into(),
        port: PortId(number.into()),
        group: GroupId(0),
        mac: Mac([2, 0, 0, 0, 0, number + 1]),
        ip: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number + 1))),
    }
}

fn sessions(listener: OwnedFd, registry: &Registry, is_kept: bool) -> Sessions {
    Sessions::new(ShardId::FIRST, Some(listener), registry.clone(), is_kept)
}

impl World {
    pub(super) fn new() -> Self {
        Self::recorded_in(None)
    }

    /// The same, with everything recorded in `records`.
    pub(super) fn recorded_in(records: Option<&Records>) -> Self {
        let Shared { registry, listener } = &*SHARED;
        let adapter = |number: usize| {
            let spec = spec(number as u8);
            registry.directory.add(&spec, ShardId::FIRST);
            let adapter = OnDemand::new(spec, number as u64, records.cloned());
            adapter.expect("its addresses are sound")
        };
        let listener = listener.try_clone().expect("there are descriptors");
        Self {
            sessions: sessions(listener, registry, records.is_some()),
            adapters: Pair(std::array::from_fn(adapter)),
            now: Time(1),
        }
    }

    /// A world that continues with what another process has recorded. Complete states come back as sessions, each with
    /// its adapter's number.
    pub(super) fn revived(
        found: Vec<Record>,
        records: &Records,
        inherit: impl FnOnce(Vec<RawFd>) -> Inherited,
    ) -> (Self, Vec<(usize, SessionId)>) {
        let Shared { registry, listener } = &*SHARED;
        let mut remembered = Remembered::new(found, records);
        let mut inherited = inherit(remembered.descriptors(|_, _| Vec::new()));
        let mut open = Vec::new();
        let adapters = std::array::from_fn(|number| {
            let seed = number as u64;
            let means = Means {
                records: records.clone(),
                registry,
                inherited: &mut inherited,
                seed,
            };
            match remembered.revive(spec(number as u8), means) {
                Some(Ok(Revived { process, sessions })) => {
                    open.extend(sessions.into_iter().map(|session| (number, session)));
                    OnDemand::revived(process)
                }
                Some(Err(_)) | None => {
                    OnDemand::new(spec(number as u8), seed, Some(records.clone()))
                        .expect("its addresses are sound")
                }
            }
        });
        remembered.forget(records);
        drop(inherited);
        let listener = listener.try_clone().expect("there are descriptors");
        let mut sessions = sessions(listener, registry, true);
        let open = open.into_iter().filter_map(|(number, session)| {
            let id = sessions.adopt_open(session).ok()?;
            Some((number, id))
        });
        let open = open.collect();
        let world = Self {
            sessions,
            adapters: Pair(adapters),
            now: Time(1),
        };
        (world, open)
    }

    /// Connects a client and returns both ends.
    pub(super) fn connect(&mut self) -> Option<(OwnedFd, SessionId)> {
        let socket = socket(SocketFlags::empty()).expect("there are descriptors");
        connect(&socket, &name().expect("it is short")).expect("somebody listens");
        let accepted = self.sessions.accept(Entrance::All);
        Some((socket, accepted.expect("it is a listening socket")?))
    }

    /// Serves a session; whether it continues.
    pub(super) fn serve(&mut self, id: SessionId) -> bool {
        match self.sessions.serve(id, &mut self.adapters, self.now) {
            Served::Open => true,
            Served::Opened(..) => true,
            Served::ConnectionManagement(_) | Served::Elsewhere(..) => false,
            Served::Closed(_) => {
                self.close(id);
                false
            }
        }
    }

    /// Makes the doorbells of a session be read in the next turn.
    pub(super) fn rang(&mut self, id: SessionId) {
        if let Some((port, owner)) = self.sessions.open_at(id) {
            let now = self.now;
            self.adapters.0[port.0 as usize]
                .make()
                .poll_doorbells(owner, now);
        }
    }

    pub(super) fn close(&mut self, id: SessionId) {
        self.sessions.close(id, &mut self.adapters, self.now);
    }

    /// Carries units, at most as many as in one turn.
    pub(super) fn carry(&mut self) {
        for at in 0..self.adapters.0.len() {
            let process = self.adapters.0[at].make();
            let space = process.memory();
            let view = space.view();
            let turn = Turn {
                memory: &view,
                now: self.now,
            };
            process.poll(turn);
            for _ in 0..UNITS_MAX {
                let sender = self.adapters.0[at].make();
                let Some(request) = sender.next_request(turn, &mut Pace::Local) else {
                    break;
                };
                self.deliver(at, turn, &request);
            }
            self.adapters.0[at].make().finish_batch(self.now);
        }
    }

    fn deliver(&mut self, from: usize, turn: Turn<'_, '_>, request: &Request<Region>) {
        let Some(to) = owner(request.route.dgid) else {
            return;
        };
        let receiver = self.adapters.0[to].make();
        let response = receiver.deliver(turn, request, Source::Memory(turn.memory));
        receiver.finish_batch(self.now);
        if let Some(response) = response {
            let sender = self.adapters.0[from].make();
            sender.respond(turn, &response, Source::Memory(turn.memory));
        }
    }

    /// Checks that all objects of clients that are gone are freed in turns.
    pub(super) fn check_empty(&mut self) {
        for at in 0..self.adapters.0.len() {
            let mut turns = 0;
            while self.adapters.0[at].make().hca().is_reaping() {
                self.carry();
                turns += 1;
                assert!(turns < TURNS_MAX, "freeing does not end");
            }
            let left = self.adapters.0[at].make().hca().counts();
            let left = [left.pds, left.mrs, left.mws, left.cqs, left.qps, left.srqs];
            assert_eq!(left, [0; 6], "who is gone leaves objects");
        }
    }
}

/// The adapter with this address.
fn owner(gid: Gid) -> Option<usize> {
    (0..ADAPTERS)
        .find(|number| spec(*number).addresses().contains(&gid))
        .map(usize::from)
}
