//! The connection management of the daemon for programs: any requests with any bodies, datagrams between two adapters
//! that are lost or duplicated, and an address book that may know an address or not.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};
use vrdma_cm::{Ends, Outgoing, Received};
use vrdma_process::cm::{AdapterSpec, ClientId, Service};
use vrdma_process::{Caller, CmGreeting, Registry};
use vrdma_provider::VERSION;
use vrdma_provider::cm::{CreateChannel, Greet};
use vrdma_provider::daemon::take;
use vrdma_provider::message::{CM_CODES, Call, Header, PACKET_MAX, split};
use vrdma_provider::socket;
use vrdma_switch::PortId;
use vrdma_wire::{Gid, Mac, Mtu, Pkey, Qpn};
use zerocopy::IntoBytes;

use crate::input::Input;

const ADAPTERS: u8 = 2;
const CLIENTS: usize = 2;

/// Codes of connection management, and some beyond them.
const CODES: u8 = 24;

/// Most datagrams that one step delivers; the rest is lost.
const CARRIED_MAX: usize = 256;

/// Runs an input as a script of requests.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut world = World::new();
    while !input.is_empty() {
        world.step(&mut input);
    }
    world.end();
}

struct World {
    service: Service,
    now: Duration,
    clients: Vec<Client>,
    /// Identifiers and channels in previous answers.
    known: Vec<u64>,
}

struct Client {
    id: ClientId,
    socket: OwnedFd,
    gone: bool,
}

fn address(last: u8) -> Gid {
    Gid::from_ipv4([10, 0, 0, last].into())
}

impl World {
    fn new() -> Self {
        let mut service = Service::new(Registry::default(), 1);
        for number in 0..ADAPTERS {
            service.attach(AdapterSpec {
                port: PortId(number.into()),
                name: format!("c{number}").into(),
                mac: Mac([2, 0, 0, 0, 0, number + 1]),
                address: address(number + 1),
                mtu: Mtu::B1024,
            });
        }
        let mut world = Self {
            service,
            now: Duration::ZERO,
            clients: Vec::new(),
            known: Vec::new(),
        };
        (0..CLIENTS).for_each(|_| world.greet());
        world
    }

    fn greet(&mut self) {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) = pair.expect("there are descriptors");
        let greet = Greet {
            version: VERSION,
            ..Greet::default()
        };
        send(&theirs, Greet::CODE, greet.as_bytes());
        let request = take(ours.as_fd(), drop).ok().flatten();
        let greeting = CmGreeting {
            caller: Caller::at(ours.as_fd()).expect("it is a connected socket"),
            socket: ours,
            request: request.expect("it was sent just now"),
        };
        let id = self.service.greet(greeting).expect("there is room for two");
        self.clients.push(Client {
            id,
            socket: theirs,
            gone: false,
        });
        self.answer(self.clients.len() - 1);
        self.ask(self.clients.len() - 1, CreateChannel::CODE, &[]);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0 => {
                self.now += Duration::from_millis(input.number().min(1 << 20));
                self.service.expire(self.now);
            }
            1 => self.carry(input.byte(), 0),
            2 => self.end_of(input.below(CLIENTS)),
            _ => self.request(input),
        }
        self.carry(2, input.byte());
    }

    /// Sends a request with a body of any bytes, perhaps with an existing identifier, and an address of the two.
    fn request(&mut self, input: &mut Input<'_>) {
        let (client, code) = (input.below(CLIENTS), u32::from(input.byte() % CODES));
        let (named, addressed) = (input.byte(), input.byte());
        let length = usize::from(input.half()) % (PACKET_MAX - size_of::<Header>());
        let any = input.bytes(length);
        let mut body = vec![0; length];
        body[..any.len()].copy_from_slice(any);
        if let Some((id, place)) = self.known.get(usize::from(named)).zip(body.get_mut(..8)) {
            place.copy_from_slice(&id.to_ne_bytes());
        }
        // Endpoints are at multiples of four.
        let at = usize::from(addressed >> 2) * 4;
        if addressed & 1 == 1
            && let Some(place) = body.get_mut(at..at + 4)
        {
            place.copy_from_slice(&[10, 0, 0, 1 + (addressed >> 1 & 1)]);
        }
        self.ask(client, CM_CODES + code, &body);
    }

    fn ask(&mut self, client: usize, code: u32, body: &[u8]) {
        if self.clients[client].gone {
            return;
        }
        send(&self.clients[client].socket, code, body);
        if self
            .service
            .serve(self.clients[client].id, self.now)
            .is_some()
        {
            self.clients[client].gone = true;
        }
        self.answer(client);
    }

    fn answer(&mut self, client: usize) {
        let socket = self.clients[client].socket.as_fd();
        while let Ok(Some(packet)) = socket::receive(socket, RecvFlags::DONTWAIT) {
            let (header, body) = split(packet.bytes()).expect("answers have headers");
            let id = body.first_chunk().filter(|_| header.errno == 0);
            self.known.extend(id.map(|id| u64::from_ne_bytes(*id)));
        }
    }

    /// Delivers datagrams: each `lossy`-th is lost, and the others come `copies` times.
    fn carry(&mut self, copies: u8, lossy: u8) {
        while let Some(search) = self.service.next_search(self.now) {
            if search.dgid.0[15] <= ADAPTERS {
                self.service.found(&search, self.now);
            } else {
                self.service.missed(search, self.now);
            }
        }
        for number in 0..CARRIED_MAX {
            let Some((_, outgoing)) = self.service.next_outgoing() else {
                return;
            };
            let is_lost = lossy > 128 && number % usize::from(lossy - 127) == 0;
            for _ in 0..if is_lost { 0 } else { copies.min(2) } {
                self.deliver(&outgoing);
            }
        }
        while self.service.next_outgoing().is_some() {}
    }

    fn deliver(&mut self, outgoing: &Outgoing) {
        let port = u32::from(outgoing.ends.remote.0[15]).wrapping_sub(1);
        let received = Received {
            ends: Ends {
                local: outgoing.ends.remote,
                remote: outgoing.ends.local,
            },
            qpn: Qpn::GSI,
            pkey: Pkey::DEFAULT,
            bytes: &outgoing.to_bytes(),
        };
        self.service.receive(PortId(port), &received, self.now);
    }

    fn end_of(&mut self, client: usize) {
        let known = &mut self.clients[client];
        if !std::mem::replace(&mut known.gone, true) {
            rustix::net::shutdown(&known.socket, rustix::net::Shutdown::Both)
                .expect("it is connected");
            let hung_up = self.service.serve(known.id, self.now);
            assert!(hung_up.is_some(), "who hangs up is gone");
        }
    }

    /// Clients that are gone leave nothing.
    fn end(&mut self) {
        (0..CLIENTS).for_each(|client| self.end_of(client));
        for adapter in 0..ADAPTERS {
            let offered = self.service.offered(PortId(adapter.into()));
            assert_eq!(offered.listeners, 0);
        }
    }
}

fn send(to: &OwnedFd, code: u32, body: &[u8]) {
    let mut packet = Header {
        code: code as u16,
        number: 0,
        errno: 0,
    }
    .as_bytes()
    .to_vec();
    packet.extend(body);
    // A daemon that hung up takes nothing.
    let _sent = socket::send(to.as_fd(), &packet, &[], SendFlags::DONTWAIT);
}
