//! Two machines, and the datagrams between them.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;
use std::vec::Vec;

use vrdma_wire::cm::{
    CommId, ConnectionType, Message, PortSpace, PrivateData, RejectReason, ServiceId,
};
use vrdma_wire::{Bits, Gid, Mtu, Pkey, Psn, Qpn};

use crate::{
    Acceptance, Addresses, Call, Cm, Ends, Event, Identity, IpCaller, Link, Listen, ListenerId,
    Outgoing, Received, Request, Side,
};

mod connecting;
mod ending;
mod lossy;
mod saved;
mod sidr;

/// Two machines, A (0) and B (1), a queue of datagrams, and a clock.
pub(crate) struct World {
    pub(crate) machines: [Cm; 2],
    pub(crate) gids: [Gid; 2],
    pub(crate) queue: VecDeque<Outgoing>,
    pub(crate) events: [Vec<Event>; 2],
    pub(crate) now: Duration,
}

impl World {
    pub(crate) fn new() -> Self {
        let gid = |last| Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, last));
        Self {
            machines: [1u64, 2].map(|guid| Cm::new(Identity { guid, seed: guid })),
            gids: [gid(1), gid(2)],
            queue: VecDeque::new(),
            events: [Vec::new(), Vec::new()],
            now: Duration::ZERO,
        }
    }

    /// Takes the datagrams and events that the machines have produced.
    pub(crate) fn collect(&mut self) {
        for (machine, events) in self.machines.iter_mut().zip(&mut self.events) {
            while let Some(outgoing) = machine.next_outgoing() {
                self.queue.push_back(outgoing);
            }
            while let Some(event) = machine.next_event() {
                events.push(event);
            }
        }
    }

    pub(crate) fn deliver(&mut self, datagram: &Outgoing) {
        let to = usize::from(datagram.ends.remote == self.gids[1]);
        let received = Received {
            ends: Ends {
                local: datagram.ends.remote,
                remote: datagram.ends.local,
            },
            qpn: Qpn::GSI,
            pkey: Pkey::DEFAULT,
            bytes: &datagram.to_bytes(),
        };
        assert!(self.machines[to].receive(&received, self.now));
        self.collect();
    }

    /// Delivers all datagrams; returns the names of their messages, in order.
    pub(crate) fn deliver_all(&mut self) -> Vec<&'static str> {
        self.collect();
        let mut seen = Vec::new();
        while let Some(datagram) = self.queue.pop_front() {
            seen.push(name(&datagram.mad.message));
            self.deliver(&datagram);
        }
        seen
    }

    /// Loses all datagrams; returns the names of their messages.
    pub(crate) fn lose(&mut self) -> Vec<&'static str> {
        self.collect();
        let names = self.queue.drain(..);
        names.map(|lost| name(&lost.mad.message)).collect()
    }

    /// Lets time pass until the next deadline of either machine; `false` if there is none.
    pub(crate) fn wait(&mut self) -> bool {
        let deadlines = self.machines.iter().filter_map(Cm::deadline);
        let Some(next) = deadlines.min() else {
            return false;
        };
        self.now = self.now.max(next);
        for machine in &mut self.machines {
            machine.expire(self.now);
        }
        self.collect();
        true
    }

    /// Replaces a machine by another one, which goes on from what the first has saved.
    pub(crate) fn replace(&mut self, side: usize) {
        let old = &self.machines[side];
        let saved: Vec<_> = old.names().map(|id| old.save(id).unwrap()).collect();
        let (guid, seed) = (side as u64 + 1, self.now.as_nanos() as u64 + 77);
        self.machines[side] = Cm::new(Identity { guid, seed });
        if side == 1 {
            self.listen(1, 4);
        }
        for bytes in saved {
            let own = [self.gids[side]];
            let resumed = self.machines[side].resume(&bytes, &own, self.now);
            let id = resumed.unwrap();
            assert_eq!(self.machines[side].save(id).as_ref(), Some(&bytes));
        }
    }

    pub(crate) fn take(&mut self, side: usize) -> Vec<Event> {
        core::mem::take(&mut self.events[side])
    }

    pub(crate) fn listen(&mut self, side: usize, backlog: u32) -> ListenerId {
        let at = Listen {
            service: SERVICE,
            at: Addresses::All,
        };
        self.machines[side].listen(at, backlog).unwrap()
    }

    /// Lets A call B's service from a queue pair.
    pub(crate) fn call(&mut self, qpn: u32) -> CommId {
        let caller = IpCaller {
            port: 40000,
            source: self.gids[0],
            destination: self.gids[1],
        };
        let call = Call {
            ends: Ends {
                local: self.gids[0],
                remote: self.gids[1],
            },
            service: SERVICE,
            kind: ConnectionType::Rc,
            side: side(qpn),
            link: LINK,
            private: caller.connect_data(b"hello").unwrap(),
        };
        let id = self.machines[0].connect(&call, self.now).unwrap();
        self.collect();
        id
    }

    /// Returns the only call that B was told of.
    pub(crate) fn requested(&mut self) -> (CommId, Request) {
        match self.take(1)[..] {
            [Event::Requested(id, _, request)] => (id, request),
            ref others => panic!("{others:?}"),
        }
    }

    pub(crate) fn accept(&mut self, id: CommId, qpn: u32) {
        let acceptance = Acceptance {
            side: side(qpn),
            private: PrivateData::new(b"welcome").unwrap(),
        };
        let now = self.now;
        self.machines[1].accept(id, &acceptance, now).unwrap();
        self.collect();
    }

    /// Connects A and B; returns the names at both sides.
    pub(crate) fn connected() -> (Self, CommId, CommId) {
        let mut world = Self::new();
        world.listen(1, 1);
        let a = world.call(0x11);
        world.deliver_all();
        let (b, _) = world.requested();
        world.accept(b, 0x22);
        world.deliver_all();
        world.machines[0].ready(a, PrivateData::EMPTY).unwrap();
        world.deliver_all();
        world.events = [Vec::new(), Vec::new()];
        (world, a, b)
    }
}

pub(crate) const SERVICE: ServiceId = ServiceId::of_port(PortSpace::Tcp, 7174);

pub(crate) const LINK: Link = Link {
    mtu: Mtu::B1024,
    ack_timeout: Bits::low(15),
    retry_count: Bits::low(7),
    traffic_class: vrdma_wire::TrafficClass(0),
    flow_label: vrdma_wire::FlowLabel::new(0),
    hop_limit: 64,
};

pub(crate) fn side(qpn: u32) -> Side {
    Side {
        qpn: Qpn::new(qpn).unwrap(),
        psn: Psn::new(qpn * 1000),
        responder_resources: 4,
        initiator_depth: 3,
        flow_control: true,
        rnr_retry: Bits::low(6),
        srq: false,
    }
}

pub(crate) fn name(message: &Message) -> &'static str {
    match message {
        Message::Req(_) => "REQ",
        Message::Mra(_) => "MRA",
        Message::Rej(_) => "REJ",
        Message::Rep(_) => "REP",
        Message::Rtu(_) => "RTU",
        Message::Dreq(_) => "DREQ",
        Message::Drep(_) => "DREP",
        Message::SidrReq(_) => "SIDR_REQ",
        Message::SidrRep(_) => "SIDR_REP",
    }
}

pub(crate) fn rejected(event: &Event) -> RejectReason {
    match event {
        Event::Rejected(_, reason, _) => *reason,
        other => panic!("{other:?}"),
    }
}
