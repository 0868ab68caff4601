//! Two adapters, and clients that talk to the service over real sockets; datagrams are carried by
//! hand.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};
use vrdma_cm::{Ends, Received};
use vrdma_provider::VERSION;
use vrdma_provider::cm::*;
use vrdma_provider::daemon::take;
use vrdma_provider::message::{Call, Header, Name, PACKET_MAX, encode, parse, split};
use vrdma_provider::socket::{receive, send};
use vrdma_switch::PortId;
use vrdma_wire::{Gid, Mac, Mtu, Pkey, Qpn};

use super::{AdapterSpec, ClientId, Service};

struct World {
    service: Service,
    now: Duration,
}

/// A process.
struct Process {
    id: ClientId,
    socket: OwnedFd,
    channel: u64,
    pipe: OwnedFd,
}

fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

fn at(address: Ipv4Addr, port: u16) -> Endpoint {
    super::address::endpoint(Gid::from_ipv4(address), port)
}

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap()
}

fn put<T: Call>(socket: &OwnedFd, request: &T) {
    let mut buffer = [0; PACKET_MAX];
    let packet = encode(T::CODE, 0, request, &mut buffer);
    send(socket.as_fd(), packet, &[], SendFlags::empty()).unwrap();
}

fn answer<T: Call>(socket: &OwnedFd) -> Result<(T::Reply, Vec<OwnedFd>), Errno> {
    let packet = receive(socket.as_fd(), RecvFlags::DONTWAIT)
        .unwrap()
        .unwrap();
    let (Header { code, errno }, body) = split(packet.bytes()).unwrap();
    assert_eq!(code, T::CODE);
    if errno == 0 {
        Ok((parse(body).unwrap(), packet.fds))
    } else {
        Err(Errno::from_raw_os_error(errno as i32))
    }
}

impl World {
    /// Adapters "a" with 10.0.0.1 and "b" with 10.0.0.2.
    fn new() -> Self {
        let mut service = Service::new();
        for (index, name) in ["a", "b"].into_iter().enumerate() {
            let last = index as u8 + 1;
            service.attach(AdapterSpec {
                port: PortId(index as u32),
                name: Name::new(name).unwrap(),
                mac: Mac([2, 0, 0, 0, 0, last]),
                address: Gid::from_ipv4(ip(last)),
                mtu: Mtu::B1024,
            });
        }
        Self {
            service,
            now: Duration::ZERO,
        }
    }

    fn greet(&mut self, adapter: &str) -> Result<(ClientId, OwnedFd), Errno> {
        let (ours, theirs) = pair();
        let greet = Greet {
            version: VERSION,
            reserved: 0,
            adapter: Name::new(adapter).unwrap(),
        };
        put(&theirs, &greet);
        let request = take(ours.as_fd()).unwrap().unwrap();
        let id = self.service.greet(ours, &request);
        answer::<Greet>(&theirs)?;
        Ok((id.unwrap(), theirs))
    }

    fn process(&mut self, adapter: &str) -> Process {
        let (id, socket) = self.greet(adapter).unwrap();
        put(&socket, &CreateChannel {});
        self.service.serve(id, self.now);
        let (IdReply { id: channel }, mut fds) = answer::<CreateChannel>(&socket).unwrap();
        Process {
            id,
            socket,
            channel,
            pipe: fds.pop().unwrap(),
        }
    }

    fn ask<T: Call>(&mut self, process: &Process, request: &T) -> Result<T::Reply, Errno> {
        put(&process.socket, request);
        self.service.serve(process.id, self.now);
        self.carry();
        answer::<T>(&process.socket).map(|(body, _)| body)
    }

    /// Takes datagrams to where they belong.
    fn carry(&mut self) {
        while let Some((_, outgoing)) = self.service.next_outgoing() {
            let to = outgoing.ends.remote.to_ipv4().unwrap();
            let received = Received {
                ends: Ends {
                    local: outgoing.ends.remote,
                    remote: outgoing.ends.local,
                },
                qpn: Qpn::GSI,
                pkey: Pkey::DEFAULT,
                bytes: &outgoing.to_bytes(),
            };
            let port = PortId(u32::from(to.octets()[3]) - 1);
            self.service.receive(port, &received, self.now);
        }
    }

    fn id(&mut self, process: &Process, space: u32, qp_type: u32) -> u64 {
        let create = CreateId {
            channel: process.channel,
            space,
            qp_type,
        };
        self.ask(process, &create).unwrap().id
    }

    fn event(&mut self, process: &Process) -> Event {
        assert!(ioctl_fionread(&process.pipe).unwrap() > 0, "no byte");
        rustix::io::read(&process.pipe, &mut [0; 1]).unwrap();
        let channel = process.channel;
        self.ask(process, &GetEvent { channel }).unwrap()
    }

    fn expect(&mut self, process: &Process, id: u64, kind: EventKind) -> Event {
        let event = self.event(process);
        assert_eq!((event.id, event.kind), (id, kind as u32), "{event:?}");
        event
    }

    fn silent(&mut self, process: &Process) {
        assert_eq!(ioctl_fionread(&process.pipe), Ok(0));
        let channel = process.channel;
        let none = self.ask(process, &GetEvent { channel });
        assert_eq!(none, Err(Errno::AGAIN));
    }

    fn listen(&mut self, process: &Process, local: Endpoint, space: u32, qp: u32) -> (u64, u16) {
        let id = self.id(process, space, qp);
        let bound = self.ask(process, &Bind { id, local }).unwrap();
        let listen = Listen {
            id,
            backlog: 2,
            reserved: 0,
        };
        self.ask(process, &listen).unwrap();
        (id, bound.route.local.port)
    }

    /// An identifier that is ready to call.
    fn resolved(&mut self, process: &Process, remote: Endpoint, space: u32, qp: u32) -> u64 {
        let id = self.id(process, space, qp);
        let resolve = ResolveAddress {
            id,
            remote,
            timeout: 1000,
            ..ResolveAddress::default()
        };
        self.ask(process, &resolve).unwrap();
        self.expect(process, id, EventKind::AddressResolved);
        let route = ResolveRoute {
            id,
            ..ResolveRoute::default()
        };
        self.ask(process, &route).unwrap();
        self.expect(process, id, EventKind::RouteResolved);
        id
    }

    fn connect(&mut self, process: &Process, id: u64) {
        let parameters = parameters(0x11, b"hello");
        self.ask(process, &Connect { id, parameters }).unwrap();
    }
}

fn parameters(qp_num: u32, private: &[u8]) -> ConnectionParameters {
    ConnectionParameters {
        qp_num,
        responder_resources: 4,
        initiator_depth: 3,
        retry_count: 6,
        rnr_retry_count: 5,
        private: PrivateData::new(private).unwrap(),
        ..ConnectionParameters::default()
    }
}

const TCP: (u32, u32) = (space::TCP, qp_type::RC);

/// A connection from `a` to `b`: the processes and their identifiers.
fn connected(world: &mut World) -> (Process, u64, Process, u64) {
    let (a, b) = (world.process("a"), world.process("b"));
    let (listener, port) = world.listen(&b, at(ip(2), 0), TCP.0, TCP.1);
    let caller = world.resolved(&a, at(ip(2), port), TCP.0, TCP.1);
    world.connect(&a, caller);
    let called = world.event(&b);
    assert_eq!(called.kind, EventKind::ConnectRequest as u32);
    assert_eq!(called.listener, listener);
    let child = called.id;
    assert_eq!(called.route.remote.address[..4], ip(1).octets());
    assert_eq!(called.parameters.private.as_bytes().len(), 56);
    assert_eq!(&called.parameters.private.as_bytes()[..5], b"hello");
    assert_eq!(
        called.parameters.responder_resources, 3,
        "the caller's depth"
    );
    let rts = InitQp {
        id: child,
        state: 3,
        reserved: 0,
    };
    let before = world.ask(&b, &rts).unwrap().sq_psn;
    let accept = Accept {
        id: child,
        parameters: parameters(0x22, b"welcome"),
    };
    world.ask(&b, &accept).unwrap();
    let response = world.expect(&a, caller, EventKind::ConnectResponse);
    assert_eq!(response.parameters.qp_num, 0x22);
    let rtr = InitQp {
        id: caller,
        state: 2,
        reserved: 0,
    };
    assert_eq!(world.ask(&a, &rtr).unwrap().rq_psn, before);
    let ready = Accept {
        id: caller,
        ..Accept::default()
    };
    world.ask(&a, &ready).unwrap();
    world.expect(&b, child, EventKind::Established);
    (a, caller, b, child)
}

#[test]
fn two_processes_connect_and_part() {
    let mut world = World::new();
    let (a, caller, b, child) = connected(&mut world);
    let rtr = |id| InitQp {
        id,
        state: 2,
        reserved: 0,
    };
    let (ours, theirs) = (
        world.ask(&a, &rtr(caller)).unwrap(),
        world.ask(&b, &rtr(child)).unwrap(),
    );
    assert_eq!((ours.dest_qp_num, theirs.dest_qp_num), (0x22, 0x11));
    assert_eq!(ours.dgid, Gid::from_ipv4(ip(2)).0);
    assert_eq!(ours.rq_psn, theirs.rq_psn);
    let rts = InitQp {
        id: caller,
        state: 3,
        reserved: 0,
    };
    let rts = world.ask(&a, &rts).unwrap();
    assert_eq!((rts.sq_psn, rts.rnr_retry), (theirs.rq_psn, 5));
    world.ask(&a, &Disconnect { id: caller }).unwrap();
    world.expect(&a, caller, EventKind::Disconnected);
    world.expect(&b, child, EventKind::Disconnected);
    world.ask(&b, &Disconnect { id: child }).unwrap();
    world.now = world.service.deadline().unwrap();
    world.service.expire(world.now);
    world.expect(&a, caller, EventKind::TimewaitExit);
    for (process, id) in [(&a, caller), (&b, child)] {
        world.ask(process, &DestroyId { id }).unwrap();
    }
    world.silent(&a);
    assert_eq!(world.service.deadline(), None);
}

#[test]
fn both_ends_may_be_on_one_adapter_and_called_by_the_loopback_address() {
    let mut world = World::new();
    let process = world.process("a");
    let (listener, port) = world.listen(&process, at(Ipv4Addr::UNSPECIFIED, 7000), TCP.0, TCP.1);
    let caller = world.resolved(&process, at(Ipv4Addr::LOCALHOST, port), TCP.0, TCP.1);
    world.connect(&process, caller);
    let called = world.event(&process);
    assert_eq!(called.listener, listener);
    let reject = Reject {
        id: called.id,
        private: PrivateData::new(b"no").unwrap(),
        ..Reject::default()
    };
    world.ask(&process, &reject).unwrap();
    let rejected = world.expect(&process, caller, EventKind::Rejected);
    assert_eq!(rejected.status, 28);
    assert_eq!(&rejected.parameters.private.as_bytes()[..3], b"no\0");
}

#[test]
fn datagram_services_are_resolved() {
    let mut world = World::new();
    let (a, b) = (world.process("a"), world.process("b"));
    let udp = (space::UDP, qp_type::UD);
    let (_, port) = world.listen(&b, at(Ipv4Addr::UNSPECIFIED, 0), udp.0, udp.1);
    let caller = world.resolved(&a, at(ip(2), port), udp.0, udp.1);
    world.connect(&a, caller);
    let called = world.event(&b);
    assert_eq!(&called.parameters.private.as_bytes()[..5], b"hello");
    let accept = Accept {
        id: called.id,
        parameters: parameters(0x33, b""),
    };
    world.ask(&b, &accept).unwrap();
    let found = world.expect(&a, caller, EventKind::Established);
    assert_eq!(
        (found.parameters.qp_num, found.parameters.qkey),
        (0x33, 0x0123_4567)
    );
    assert_eq!(found.peer.dgid, Gid::from_ipv4(ip(2)).0);
    let nobody = world.resolved(&a, at(ip(2), port + 1), udp.0, udp.1);
    world.connect(&a, nobody);
    let missing = world.expect(&a, nobody, EventKind::Unreachable);
    assert_eq!(missing.status, 1);
}

#[test]
fn nobody_listens_and_nobody_answers() {
    let mut world = World::new();
    let a = world.process("a");
    let caller = world.resolved(&a, at(ip(2), 9), TCP.0, TCP.1);
    world.connect(&a, caller);
    assert_eq!(world.expect(&a, caller, EventKind::Rejected).status, 8);
    let caller = world.resolved(&a, at(ip(2), 9), TCP.0, TCP.1);
    let parameters = parameters(1, b"");
    put(
        &a.socket,
        &Connect {
            id: caller,
            parameters,
        },
    );
    world.service.serve(a.id, world.now);
    while let Some(deadline) = world.service.deadline() {
        while world.service.next_outgoing().is_some() {}
        world.now = deadline;
        world.service.expire(deadline);
    }
    answer::<Connect>(&a.socket).unwrap();
    let status = world.expect(&a, caller, EventKind::Unreachable).status;
    assert_eq!(status, -Errno::TIMEDOUT.raw_os_error());
}

#[test]
fn ports_belong_to_one() {
    let mut world = World::new();
    let (a, b) = (world.process(""), world.process(""));
    world.listen(&a, at(Ipv4Addr::UNSPECIFIED, 7), TCP.0, TCP.1);
    let id = world.id(&b, TCP.0, TCP.1);
    let bind = |local| Bind { id, local };
    assert_eq!(world.ask(&b, &bind(at(ip(2), 7))), Err(Errno::ADDRINUSE));
    assert_eq!(world.ask(&b, &bind(at(ip(9), 8))), Err(Errno::ADDRNOTAVAIL));
    let bound = world.ask(&b, &bind(at(ip(2), 0))).unwrap();
    assert_eq!(bound.route.adapter.as_str(), "b");
    assert!(bound.route.local.port > 1024);
    assert_eq!(
        world.ask(&b, &bind(at(ip(2), 0))),
        Err(Errno::INVAL),
        "bound already"
    );
    drop(a.socket);
    world.service.serve(a.id, world.now);
    world.listen(&b, at(ip(2), 7), TCP.0, TCP.1);
}

#[test]
fn a_process_that_dies_ends_its_connections_and_calls() {
    let mut world = World::new();
    let (a, _, b, child) = connected(&mut world);
    drop(a.socket);
    world.service.serve(a.id, world.now);
    world.carry();
    world.expect(&b, child, EventKind::Disconnected);
    assert!(world.service.socket(a.id).is_none());
}

#[test]
fn a_listener_that_goes_takes_unseen_calls_along() {
    let mut world = World::new();
    let (a, b) = (world.process("a"), world.process("b"));
    let (listener, port) = world.listen(&b, at(ip(2), 0), TCP.0, TCP.1);
    let caller = world.resolved(&a, at(ip(2), port), TCP.0, TCP.1);
    world.connect(&a, caller);
    world.ask(&b, &DestroyId { id: listener }).unwrap();
    assert_eq!(world.expect(&a, caller, EventKind::Rejected).status, 28);
    let channel = b.channel;
    world.ask(&b, &DestroyChannel { channel }).unwrap();
}

#[test]
fn events_move_with_their_identifier() {
    let mut world = World::new();
    let a = world.process("a");
    put(&a.socket, &CreateChannel {});
    world.service.serve(a.id, world.now);
    let (IdReply { id: channel }, fds) = answer::<CreateChannel>(&a.socket).unwrap();
    let id = world.id(&a, TCP.0, TCP.1);
    let resolve = ResolveAddress {
        id,
        remote: at(ip(2), 1),
        ..ResolveAddress::default()
    };
    world.ask(&a, &resolve).unwrap();
    world.ask(&a, &Migrate { id, channel }).unwrap();
    assert_eq!(ioctl_fionread(&fds[0]), Ok(1));
    let event = world.ask(&a, &GetEvent { channel }).unwrap();
    assert_eq!((event.id, event.kind), (id, 0));
    let old = a.channel;
    assert_eq!(world.ask(&a, &GetEvent { channel: old }), Err(Errno::AGAIN));
    world.ask(&a, &DestroyChannel { channel: old }).unwrap();
    assert_eq!(world.ask(&a, &DestroyChannel { channel }), Err(Errno::BUSY));
}

#[test]
fn groups_are_joined_at_once() {
    let mut world = World::new();
    let a = world.process("a");
    let group = at(Ipv4Addr::new(239, 1, 2, 3), 0);
    let id = world.id(&a, space::UDP, qp_type::UD);
    let join = Join {
        id,
        group,
        ..Join::default()
    };
    assert_eq!(world.ask(&a, &join), Err(Errno::INVAL), "no adapter yet");
    let resolve = ResolveAddress {
        id,
        remote: group,
        ..ResolveAddress::default()
    };
    world.ask(&a, &resolve).unwrap();
    world.expect(&a, id, EventKind::AddressResolved);
    let JoinReply { group } = world.ask(&a, &join).unwrap();
    let joined = world.expect(&a, id, EventKind::MulticastJoin);
    assert_eq!((joined.group, joined.parameters.qp_num), (group, 0xff_ffff));
    assert_eq!(joined.peer.dgid[12..], [239, 1, 2, 3]);
    world.ask(&a, &Leave { group }).unwrap();
    assert_eq!(world.ask(&a, &Leave { group }), Err(Errno::INVAL));
}

#[test]
fn a_greeting_is_checked() {
    let mut world = World::new();
    assert_eq!(world.greet("c").err(), Some(Errno::NODEV));
    let process = world.process("a");
    put(&process.socket, &Greet::default());
    world.service.serve(process.id, world.now);
    assert_eq!(answer::<Greet>(&process.socket).err(), Some(Errno::NOSYS));
    send(process.socket.as_fd(), b"abc", &[], SendFlags::empty()).unwrap();
    world.service.serve(process.id, world.now);
    assert!(
        world.service.socket(process.id).is_none(),
        "garbage ends it"
    );
}

#[test]
fn an_adapter_that_goes_is_told() {
    let mut world = World::new();
    let (a, caller, ..) = connected(&mut world);
    world.service.detach(PortId(0));
    world.expect(&a, caller, EventKind::DeviceRemoval);
    world.ask(&a, &DestroyId { id: caller }).unwrap();
}

#[test]
fn strange_numbers_are_refused() {
    let mut world = World::new();
    let a = world.process("a");
    let id = 12345;
    assert_eq!(world.ask(&a, &Disconnect { id }), Err(Errno::INVAL));
    assert_eq!(world.ask(&a, &DestroyId { id }), Err(Errno::INVAL));
    let channel = a.channel;
    let create = |channel, space, qp_type| CreateId {
        channel,
        space,
        qp_type,
    };
    assert_eq!(world.ask(&a, &create(77, TCP.0, TCP.1)), Err(Errno::INVAL));
    assert_eq!(
        world.ask(&a, &create(channel, 3, TCP.1)),
        Err(Errno::PROTONOSUPPORT)
    );
    assert_eq!(
        world.ask(&a, &create(channel, TCP.0, 99)),
        Err(Errno::INVAL)
    );
    let id = world.id(&a, TCP.0, TCP.1);
    let parameters = parameters(1, b"");
    assert_eq!(
        world.ask(&a, &Connect { id, parameters }),
        Err(Errno::INVAL)
    );
    assert_eq!(world.ask(&a, &Accept { id, parameters }), Err(Errno::INVAL));
    let no_family = Endpoint::default();
    assert_eq!(
        world.ask(
            &a,
            &Bind {
                id,
                local: no_family
            }
        ),
        Err(Errno::AFNOSUPPORT)
    );
}
