//! The communication manager of an adapter with a peer that sends arbitrary datagrams, and an owner that answers.

use std::net::Ipv4Addr;
use std::time::Duration;

use vrdma_cm::{
    Acceptance, Addresses, Call, Cm, CommId, ConnectionType, Ends, Event, Identity, IpCaller, Link,
    Listen, Outgoing, PortSpace, PrivateData, Received, RejectReason, Resolve, ServiceId, Side,
    SidrAnswer, SidrStatus,
};
use vrdma_wire::{Gid, MAD_LEN, Pkey, Qkey, Qpn};

use crate::input::Input;

const SERVICE: ServiceId = ServiceId::of_port(PortSpace::Tcp, 7174);
const DATAGRAM_SERVICE: ServiceId = ServiceId::of_port(PortSpace::Udp, 7174);

/// How often the clock is advanced at the end: more often than any message is repeated.
const ROUNDS_MAX: usize = 4096;

/// Offset of our communication ID in messages that have both: first that of the sender, then ours.
const OURS_AT: usize = 28;

/// Runs an input as a script of datagrams, commands and time.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut world = World::new();
    while !input.is_empty() {
        world.step(&mut input);
        world.collect();
    }
    world.end();
}

struct World {
    cm: Cm,
    now: Duration,
    /// Identifiers that the owner was told of.
    known: Vec<CommId>,
    /// Messages that were sent, for a peer that answers with copies of them.
    sent: Vec<Outgoing>,
}

fn gid(last: u8) -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, last))
}

fn ends(remote: u8) -> Ends {
    Ends {
        local: gid(1),
        remote: gid(2 + remote % 3),
    }
}

fn side() -> Side {
    Side {
        qpn: Qpn::from_low_bits(0x11),
        ..Side::default()
    }
}

impl World {
    fn new() -> Self {
        let mut cm = Cm::new(Identity { guid: 1, seed: 1 });
        for service in [SERVICE, DATAGRAM_SERVICE, ServiceId(5)] {
            let at = Listen {
                service,
                at: Addresses::All,
            };
            cm.listen(at, 3).expect("there is room for three");
        }
        Self {
            cm,
            now: Duration::ZERO,
            known: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(12) {
            0..6 => self.receive(input),
            6 => self.echo(input),
            7 => {
                self.now += Duration::from_millis(input.number().min(1 << 20));
                self.cm.expire(self.now);
            }
            8 => self.call(input),
            _ => self.command(input),
        }
    }

    /// Delivers a datagram of arbitrary bytes, with a header that passes, and perhaps one of our IDs.
    fn receive(&mut self, input: &mut Input<'_>) {
        let (kind, remote, named) = (input.byte(), input.byte(), input.byte());
        let mut bytes = [0; MAD_LEN];
        let any = input.block();
        let length = any.len().min(MAD_LEN - 24);
        bytes[24..24 + length].copy_from_slice(&any[..length]);
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[16..18].copy_from_slice(&[0, 0x10 + kind % 16]);
        if let Some(name) = self.known.get(usize::from(named)) {
            bytes[OURS_AT..OURS_AT + 4].copy_from_slice(&name.0.to_be_bytes());
        }
        self.deliver(remote, &bytes);
    }

    /// Delivers one of our own messages, with some bytes changed.
    fn echo(&mut self, input: &mut Input<'_>) {
        let at = input.below(16);
        let Some(outgoing) = self.sent.get(at) else {
            return;
        };
        let mut bytes = outgoing.to_bytes();
        for _ in 0..input.below(6) {
            bytes[input.below(MAD_LEN)] = input.byte();
        }
        if input.is_odd() {
            // Both IDs change places, as in an answer.
            let (theirs, ours) = bytes[24..32].split_at_mut(4);
            theirs.swap_with_slice(ours);
        }
        let remote = input.byte();
        self.deliver(remote, &bytes);
    }

    fn deliver(&mut self, remote: u8, bytes: &[u8]) {
        let received = Received {
            ends: ends(remote),
            qpn: Qpn::GSI,
            pkey: Pkey::DEFAULT,
            bytes,
        };
        self.cm.receive(&received, self.now);
    }

    fn call(&mut self, input: &mut Input<'_>) {
        let ends = ends(input.byte());
        let caller = IpCaller {
            port: 40000,
            source: ends.local,
            destination: ends.remote,
        };
        let called = if input.is_odd() {
            let call = Call {
                ends,
                service: SERVICE,
                kind: ConnectionType::Rc,
                side: side(),
                link: Link::default(),
                private: caller.connect_data(b"hello").expect("it is short"),
            };
            self.cm.connect(&call, self.now)
        } else {
            let resolve = Resolve {
                ends,
                service: DATAGRAM_SERVICE,
                private: caller.resolve_data(b"hello").expect("it is short"),
            };
            self.cm.resolve(&resolve, self.now)
        };
        self.known.extend(called);
    }

    /// Issues a command of the owner on any known identifier; one that does not fit the state is refused.
    fn command(&mut self, input: &mut Input<'_>) {
        let Some(&id) = self.known.get(input.below(64)) else {
            return;
        };
        let _outcome = match input.below(7) {
            0 => {
                let acceptance = Acceptance {
                    side: side(),
                    private: PrivateData::EMPTY,
                };
                self.cm.accept(id, &acceptance, self.now)
            }
            1 => self.cm.reject(id, RejectReason::NO_QP, PrivateData::EMPTY),
            2 => self.cm.ready(id, PrivateData::EMPTY),
            3 => self.cm.established(id),
            4 => self.cm.disconnect(id, self.now),
            5 => {
                let answer = SidrAnswer {
                    status: SidrStatus::OK,
                    qpn: Qpn::from_low_bits(0x22),
                    qkey: Qkey(1),
                    private: PrivateData::EMPTY,
                };
                self.cm.answer(id, &answer, self.now)
            }
            _ => {
                self.cm.release(id, self.now);
                Ok(())
            }
        };
    }

    fn collect(&mut self) {
        self.sent.clear();
        while let Some(outgoing) = self.cm.next_outgoing() {
            self.sent.push(outgoing);
        }
        while let Some(event) = self.cm.next_event() {
            if let Event::Requested(id, ..) | Event::ResolveRequested(id, ..) = event {
                self.known.push(id);
            }
        }
    }

    /// When the owner has released everything and nobody answers, nothing is left.
    fn end(&mut self) {
        for id in std::mem::take(&mut self.known) {
            self.cm.release(id, self.now);
        }
        for _ in 0..ROUNDS_MAX {
            self.collect();
            for id in std::mem::take(&mut self.known) {
                self.cm.release(id, self.now);
            }
            let Some(deadline) = self.cm.deadline() else {
                return;
            };
            self.now = self.now.max(deadline);
            self.cm.expire(self.now);
        }
        panic!("the manager is not done after {ROUNDS_MAX} deadlines");
    }
}
