//! Two adapters, and clients that talk to the service over real sockets; the tests carry the datagrams.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};
use rustix::time::Timespec;
use vrdma_cm::{Ends, Received};
use vrdma_provider::VERSION;
use vrdma_provider::cm::*;
use vrdma_provider::daemon::take;
use vrdma_provider::message::{Call, Header, Name, PACKET_MAX, encode, parse, split};
use vrdma_provider::socket::{receive, send};
use vrdma_switch::PortId;
use vrdma_wire::{Gid, Mac, Mtu, Pkey, Qpn};

use super::{AdapterSpec, ClientId, Service};
use crate::caller::Caller;
use crate::queue_pairs::Entry;
use crate::registry::Registry;
use crate::sessions::CmGreeting;

mod addresses;
mod admission;
mod clients;
mod connecting;
mod costs;
mod events;
mod kept;
mod quotas;

struct World {
    service: Service,
    /// The area for records, if another service goes on after each request.
    area: Option<OwnedFd>,
    registry: Registry,
    now: Duration,
    /// Last byte of the last address that exists.
    known: u8,
    /// Queue pair of the next connection request.
    qpn: u32,
    /// Queue pairs that belong to this user.
    queue_pairs: Vec<Entry>,
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

/// Number of the next request: no two requests in a row have the same.
static NUMBER: AtomicU16 = AtomicU16::new(0);

fn put<T: Call>(socket: &OwnedFd, request: &T) {
    let mut buffer = [0; PACKET_MAX];
    let number = NUMBER.fetch_add(1, Relaxed);
    let packet = encode(Header::of::<T>(number), request, &mut buffer);
    send(socket.as_fd(), packet, &[], SendFlags::empty()).unwrap();
}

fn answer<T: Call>(socket: &OwnedFd) -> Result<(T::Reply, Vec<OwnedFd>), Errno> {
    let packet = receive(socket.as_fd(), RecvFlags::DONTWAIT)
        .unwrap()
        .unwrap();
    let (Header { code, errno, .. }, body) = split(packet.bytes()).unwrap();
    assert_eq!(u32::from(code), T::CODE);
    if errno == 0 {
        Ok((parse(body).unwrap(), packet.fds))
    } else {
        Err(Errno::from_raw_os_error(errno as i32))
    }
}

/// An adapter whose address ends in `last`.
fn spec(last: u8, name: &str) -> AdapterSpec {
    AdapterSpec {
        port: PortId(u32::from(last) - 1),
        name: name.into(),
        mac: Mac([2, 0, 0, 0, 0, last]),
        address: Gid::from_ipv4(ip(last)),
        mtu: Mtu::B1024,
    }
}

impl World {
    /// Makes adapters "a" with 10.0.0.1 and "b" with 10.0.0.2.
    fn new() -> Self {
        Self::with(Registry::default())
    }

    fn with(registry: Registry) -> Self {
        let own = registry.users.of(rustix::process::geteuid().as_raw());
        let both = (0..2).map(PortId);
        let all =
            both.flat_map(|port| (0..0x2000).map(move |number| (port, Qpn::from_low_bits(number))));
        let queue_pairs = all.map(|(port, qpn)| Entry::new(Arc::clone(&own.counts), port, qpn));
        let queue_pairs = queue_pairs.collect();
        let mut service = Service::new(registry.clone(), 1);
        let area = kept::begin(&mut service);
        service.attach(spec(1, "a"));
        service.attach(spec(2, "b"));
        Self {
            service,
            area,
            registry,
            now: Duration::ZERO,
            known: 2,
            qpn: 0x11,
            queue_pairs,
        }
    }

    fn greet(&mut self, adapter: &str) -> Result<(ClientId, OwnedFd), Errno> {
        let own = rustix::process::geteuid().as_raw();
        self.greet_as(Caller::of(own, 0, &[]), adapter)
    }

    fn greet_as(&mut self, caller: Caller, adapter: &str) -> Result<(ClientId, OwnedFd), Errno> {
        let (socket, theirs) = pair();
        let greet = Greet {
            version: VERSION,
            reserved: 0,
            adapter: Name::new(adapter).unwrap(),
        };
        put(&theirs, &greet);
        let request = take(socket.as_fd(), drop).unwrap().unwrap();
        let id = self.service.greet(CmGreeting {
            socket,
            caller,
            request,
        });
        answer::<Greet>(&theirs)?;
        Ok((id.unwrap(), theirs))
    }

    fn process(&mut self, adapter: &str) -> Process {
        let (id, socket) = self.greet(adapter).unwrap();
        self.with_channel(id, socket)
    }

    fn process_as(&mut self, caller: Caller, adapter: &str) -> Process {
        let (id, socket) = self.greet_as(caller, adapter).unwrap();
        self.with_channel(id, socket)
    }

    fn with_channel(&mut self, id: ClientId, socket: OwnedFd) -> Process {
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

    /// Ends a client. The kernel reports the hang-up when nobody has the socket any more; a child process that another
    /// test is starting has it until its exec.
    fn hang_up(&mut self, client: ClientId, socket: OwnedFd) {
        drop(socket);
        let ours = self.service.socket(client).unwrap();
        let mut watched = [PollFd::new(&ours, PollFlags::RDHUP)];
        let limit = Timespec::try_from(Duration::from_secs(20)).unwrap();
        assert_eq!(poll(&mut watched, Some(&limit)), Ok(1), "it hangs up");
        self.service.serve(client, self.now);
    }

    fn ask<T: Call>(&mut self, process: &Process, request: &T) -> Result<T::Reply, Errno> {
        put(&process.socket, request);
        self.replace();
        self.service.serve(process.id, self.now);
        self.replace();
        self.carry();
        self.replace();
        answer::<T>(&process.socket).map(|(body, _)| body)
    }

    /// Carries datagrams to their destinations, and answers searches for addresses.
    fn carry(&mut self) {
        while let Some(search) = self.service.next_search(self.now) {
            if search.dgid.0[15] <= self.known {
                self.service.found(&search, self.now);
            } else {
                self.service.missed(search, self.now);
            }
        }
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
        self.service.delivered();
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

    /// Makes an identifier that may join a group, and the request to do so.
    fn joining(&mut self, process: &Process) -> Join {
        let group = at(Ipv4Addr::new(239, 1, 2, 3), 0);
        let id = self.id(process, space::UDP, qp_type::UD);
        let resolve = ResolveAddress {
            id,
            remote: group,
            ..ResolveAddress::default()
        };
        self.ask(process, &resolve).unwrap();
        Join {
            id,
            group,
            ..Join::default()
        }
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

    /// Makes an identifier that is ready to connect.
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

    fn leave(&mut self, process: &Process, group: u64) -> Result<(), Errno> {
        self.ask(process, &Leave { group }).map(|_| ())
    }

    fn connect(&mut self, process: &Process, id: u64) {
        let parameters = parameters(self.qpn, b"hello");
        self.qpn += 0x100;
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

/// Connects `a` to `b`: the processes and their identifiers.
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
