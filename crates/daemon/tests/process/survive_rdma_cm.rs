//! Connections of rdma_cm whose worker is killed at each of their steps.
//!
//! The programs do what rping and similar ones do: each event is delivered once, whichever worker delivers it.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use vrdma_provider::VERSION;
use vrdma_provider::client::{CallError, Connection};
use vrdma_provider::cm::*;
use vrdma_provider::message::{Call, Name};

use crate::client::{Client, Queues, errno};
use crate::survive::{Kept, PATIENCE};

/// A program that uses rdma_cm.
struct Program {
    connection: Connection,
    channel: u64,
    pipe: OwnedFd,
}

impl Program {
    /// Connects as the library does: a connection that no worker has answered on is opened again.
    fn begin(kept: &Kept) -> Self {
        let greet = Greet {
            version: VERSION,
            reserved: 0,
            adapter: Name::default(),
        };
        loop {
            let connection = Connection::open(&kept.socket()).unwrap();
            match connection.call(&greet, &[]) {
                Ok(_) => return Self::over(connection),
                Err(CallError::Lost(_)) => {}
                Err(refused) => panic!("{refused}"),
            }
        }
    }

    fn over(connection: Connection) -> Self {
        let created = connection.call(&CreateChannel {}, &[]).unwrap();
        let (channel, mut fds) = (created.body.id, created.fds);
        let pipe = fds.pop().expect("a channel has a pipe");
        Self {
            connection,
            channel,
            pipe,
        }
    }

    fn ask<T: Call>(&self, request: &T) -> T::Reply {
        self.connection.call(request, &[]).unwrap().body
    }

    fn id(&self, space: u32, qp_type: u32) -> u64 {
        let create = CreateId {
            channel: self.channel,
            space,
            qp_type,
        };
        self.ask(&create).id
    }

    /// Waits for the next event, as the library does.
    fn event(&self) -> Event {
        let channel = self.channel;
        loop {
            let timeout = Timespec::try_from(PATIENCE).unwrap();
            let mut fds = [PollFd::new(&self.pipe, PollFlags::IN)];
            assert_eq!(poll(&mut fds, Some(&timeout)), Ok(1), "no event comes");
            rustix::io::read(&self.pipe, &mut [0; 1]).unwrap();
            match self.connection.call(&GetEvent { channel }, &[]) {
                Ok(answer) => return answer.body,
                Err(CallError::Refused(Errno::AGAIN)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn expect(&self, id: u64, kind: EventKind) -> Event {
        let event = self.event();
        assert_eq!((event.id, event.kind), (id, kind as u32), "{event:?}");
        event
    }

    fn has_no_event(&self) {
        let channel = self.channel;
        let none = self.connection.call(&GetEvent { channel }, &[]);
        assert_eq!(errno(none), Errno::AGAIN.raw_os_error());
    }

    fn destroy(&self, id: u64) {
        self.ask(&DestroyId { id });
    }
}

fn at(last: u8, port: u16) -> Endpoint {
    let mut endpoint = Endpoint {
        family: family::INET,
        port,
        ..Endpoint::default()
    };
    endpoint.address[..4].copy_from_slice(&Ipv4Addr::new(10, 0, 0, last).octets());
    endpoint
}

fn parameters(queues: &Queues, private: &[u8]) -> ConnectionParameters {
    ConnectionParameters {
        qp_num: queues.reply.qp_num,
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        private: PrivateData::new(private).unwrap(),
        ..ConnectionParameters::default()
    }
}

/// Runs steps, and kills a worker while one of them is taken.
struct Steps<'a> {
    kept: &'a Kept,
    killed_at: Option<u32>,
    taken: Cell<u32>,
}

impl<'a> Steps<'a> {
    fn new(kept: &'a Kept, killed_at: Option<u32>) -> Self {
        let taken = Cell::new(0);
        Self {
            kept,
            killed_at,
            taken,
        }
    }

    fn step<R>(&self, work: impl FnOnce() -> R) -> R {
        let step = self.taken.get();
        self.taken.set(step + 1);
        if self.killed_at != Some(step) {
            return work();
        }
        thread::scope(|scope| {
            scope.spawn(|| self.kept.kill_worker());
            work()
        })
    }
}

/// Two programs, each with a queue pair.
struct Two<'a> {
    active: &'a Program,
    passive: &'a Program,
    queues: &'a (Queues, Queues),
}

const RC: (u32, u32) = (space::TCP, qp_type::RC);

impl Two<'_> {
    fn listen(&self, steps: &Steps<'_>) -> (u64, u16) {
        let id = steps.step(|| self.passive.id(RC.0, RC.1));
        let local = at(2, 0);
        let bound = steps.step(|| self.passive.ask(&Bind { id, local }));
        let listen = Listen {
            id,
            backlog: 4,
            reserved: 0,
        };
        steps.step(|| self.passive.ask(&listen));
        (id, bound.route.local.port)
    }

    fn resolved(&self, steps: &Steps<'_>, port: u16) -> u64 {
        let id = steps.step(|| self.active.id(RC.0, RC.1));
        let resolve = ResolveAddress {
            id,
            local: at(1, 0),
            remote: at(2, port),
            timeout: 5000,
            ..ResolveAddress::default()
        };
        steps.step(|| self.active.ask(&resolve));
        steps.step(|| self.active.expect(id, EventKind::AddressResolved));
        let route = ResolveRoute {
            id,
            ..ResolveRoute::default()
        };
        steps.step(|| self.active.ask(&route));
        steps.step(|| self.active.expect(id, EventKind::RouteResolved));
        id
    }

    /// Receives a connection request, and returns its identifier.
    fn called(&self, steps: &Steps<'_>, listener: u64) -> u64 {
        let called = steps.step(|| self.passive.event());
        let (kind, of) = (EventKind::ConnectRequest as u32, called.listener);
        assert_eq!((called.kind, of), (kind, listener), "{called:?}");
        assert_eq!(&called.parameters.private.as_bytes()[..5], b"hello");
        called.id
    }

    /// Connects and disconnects. Returns how many steps that took.
    fn cycle(&self, steps: &Steps<'_>) -> u32 {
        let (listener, port) = self.listen(steps);
        let id = self.resolved(steps, port);
        let connect = Connect {
            id,
            parameters: parameters(&self.queues.0, b"hello"),
        };
        steps.step(|| self.active.ask(&connect));
        let child = self.called(steps, listener);
        let accept = Accept {
            id: child,
            parameters: parameters(&self.queues.1, b"welcome"),
        };
        steps.step(|| self.passive.ask(&accept));
        let answer = steps.step(|| self.active.expect(id, EventKind::ConnectResponse));
        assert_eq!(&answer.parameters.private.as_bytes()[..7], b"welcome");
        let ready = Accept {
            id,
            ..Accept::default()
        };
        steps.step(|| self.active.ask(&ready));
        steps.step(|| self.passive.expect(child, EventKind::Established));
        steps.step(|| self.active.ask(&Disconnect { id }));
        steps.step(|| self.active.expect(id, EventKind::Disconnected));
        steps.step(|| self.passive.expect(child, EventKind::Disconnected));
        self.reject(steps, listener, port);
        steps.step(|| self.active.destroy(id));
        steps.step(|| self.passive.destroy(child));
        steps.step(|| self.passive.destroy(listener));
        self.active.has_no_event();
        self.passive.has_no_event();
        steps.taken.get()
    }

    fn reject(&self, steps: &Steps<'_>, listener: u64, port: u16) {
        let id = self.resolved(steps, port);
        let connect = Connect {
            id,
            parameters: parameters(&self.queues.0, b"hello"),
        };
        steps.step(|| self.active.ask(&connect));
        let child = self.called(steps, listener);
        let no = Reject {
            id: child,
            private: PrivateData::new(b"no").unwrap(),
            ..Reject::default()
        };
        steps.step(|| self.passive.ask(&no));
        let rejected = steps.step(|| self.active.expect(id, EventKind::Rejected));
        assert_eq!(&rejected.parameters.private.as_bytes()[..2], b"no");
        self.active.destroy(id);
        self.passive.destroy(child);
    }
}

#[test]
fn connections_of_rdma_cm_are_made_and_end_when_workers_are_killed_at_any_step() {
    let kept = Kept::start();
    let clients = [0, 1].map(|number| Client::open_at(&kept.socket(), number));
    let queues = (clients[0].queues(16), clients[1].queues(16));
    let two = Two {
        active: &Program::begin(&kept),
        passive: &Program::begin(&kept),
        queues: &queues,
    };
    let steps = two.cycle(&Steps::new(&kept, None));
    for killed_at in 0..steps {
        two.cycle(&Steps::new(&kept, Some(killed_at)));
    }
}

/// A program joins a group and gets the event once, and the next worker knows the group.
#[test]
fn groups_that_were_joined_are_known_to_the_next_worker() {
    let kept = Kept::start();
    let program = Program::begin(&kept);
    let mut group = at(0, 0);
    group.address[..4].copy_from_slice(&[239, 1, 2, 3]);
    let id = program.id(space::UDP, qp_type::UD);
    let resolve = ResolveAddress {
        id,
        remote: group,
        ..ResolveAddress::default()
    };
    program.ask(&resolve);
    program.expect(id, EventKind::AddressResolved);
    let join = Join {
        id,
        group,
        ..Join::default()
    };
    let JoinReply { group } = program.ask(&join);
    kept.kill_worker();
    let joined = program.expect(id, EventKind::MulticastJoin);
    assert_eq!(joined.group, group);
    kept.kill_worker();
    program.has_no_event();
    program.destroy(id);
}

#[test]
fn many_programs_connect_and_part_when_workers_are_killed_at_any_moment() {
    let kept = Kept::start();
    let clients = [0, 1].map(|number| Client::open_at(&kept.socket(), number));
    let (progress, ended) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..3 {
            let queues = (clients[0].queues(16), clients[1].queues(16));
            let (kept, progress, ended) = (&kept, &progress, &ended);
            scope.spawn(move || {
                while !ended.load(SeqCst) {
                    let two = Two {
                        active: &Program::begin(kept),
                        passive: &Program::begin(kept),
                        queues: &queues,
                    };
                    let steps = Steps::new(kept, None);
                    two.cycle(&steps);
                    progress.fetch_add(steps.taken.get(), SeqCst);
                }
            });
        }
        kept.kill_workers(&progress, &ended);
    });
}
