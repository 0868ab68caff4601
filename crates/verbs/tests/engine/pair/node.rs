//! One adapter with one queue pair, and what it has handed out.

use std::net::Ipv4Addr;

use vrdma_verbs::Hca;
use vrdma_verbs::attr::{Access, Address, AttrMask, QpAttr, QpState};
use vrdma_verbs::object::{
    CqId, Identity, Limits, MrKeys, MrKind, MrSpec, Owner, PdId, QpId, QpSpec, QpType, SrqId,
};
use vrdma_verbs::packet::Train;
use vrdma_verbs::work::{Completion, Datagram, Event, RecvWr, Remote, SendOp, SendWr, Sge};
use vrdma_wire::{Gid, Mac, Mtu, Psn, Qkey, Qpn};

use super::{Memory, Region};

pub(crate) const QKEY: Qkey = Qkey(0x1111);

pub(crate) const ALL: Access = Access::all();

/// Attributes of both ends.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) mtu: Mtu,
    pub(crate) access: Access,
    pub(crate) timeout: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) rd_atomic: u8,
    pub(crate) psn: u32,
    pub(crate) signal_all: bool,
    pub(crate) srq: bool,
    /// Traffic class of packets, and number of the wire that they take.
    pub(crate) traffic_class: u8,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mtu: Mtu::B1024,
            access: ALL,
            timeout: 14,
            retry_count: 3,
            rnr_retry: 3,
            min_rnr_timer: 12,
            rd_atomic: 4,
            psn: 0xff_fff0,
            signal_all: true,
            srq: false,
            traffic_class: 0,
        }
    }
}

/// The name of a node to its peer.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub(crate) gid: Gid,
    pub(crate) qpn: Qpn,
}

/// A registered buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mr {
    pub(crate) keys: MrKeys,
    pub(crate) start: u64,
    pub(crate) length: u32,
    pub(crate) region: Region,
}

impl Mr {
    pub(crate) fn sge(&self) -> Sge {
        self.part(0, self.length)
    }

    pub(crate) fn part(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: self.start + offset,
            length,
            lkey: self.keys.lkey,
        }
    }

    pub(crate) fn remote(&self, offset: u64) -> Remote {
        Remote {
            addr: self.start + offset,
            rkey: self.keys.rkey,
        }
    }
}

pub(crate) struct Node {
    pub(crate) hca: Hca<Region>,
    pub(crate) memory: Memory,
    pub(crate) pd: PdId,
    pub(crate) send_cq: CqId,
    pub(crate) recv_cq: CqId,
    pub(crate) srq: Option<SrqId>,
    pub(crate) qp: QpId,
    /// Further queue pairs like the first.
    pub(crate) more: Vec<QpId>,
    pub(crate) gid: Gid,
    /// Completions for freed send slots, in order: `None` for an unsignalled success.
    pub(crate) sent: Vec<Option<Completion>>,
    pub(crate) received: Vec<Completion>,
    /// Messages that came with receive completions, and their buffers.
    pub(crate) enclosed: Vec<(Vec<Sge>, Vec<u8>)>,
    pub(crate) events: Vec<Event>,
    /// Gathers packets, if the node does that.
    pub(crate) train: Option<Train<Region>>,
    /// Number of times that the train had several packets.
    pub(crate) trains: u32,
}

pub(crate) fn limits() -> Limits {
    Limits {
        pds: 8,
        mrs: 64,
        cqs: 8,
        qps: 16,
        srqs: 4,
        gids: 4,
        rd_atomic: 16,
        message_bytes: 1 << 20,
        port_mtu: Mtu::B4096,
    }
}

impl Node {
    pub(crate) fn new(number: u8, qp_type: QpType, setup: &Setup) -> Self {
        Self::with_limits(number, qp_type, setup, limits())
    }

    pub(crate) fn with_limits(number: u8, qp_type: QpType, setup: &Setup, limits: Limits) -> Self {
        let mac = Mac([2, 0, 0, 0, 0, number]);
        let identity = Identity {
            mac,
            seed: u64::from(number),
        };
        let mut hca = Hca::new(identity, limits);
        let gid = Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, number));
        hca.bind_gid(0, gid).unwrap();
        let pd = hca.create_pd(Owner::KERNEL).unwrap();
        let send_cq = hca.create_cq(Owner::KERNEL).unwrap();
        let recv_cq = hca.create_cq(Owner::KERNEL).unwrap();
        let srq = setup.srq.then(|| hca.create_srq(pd, 0).unwrap());
        let spec = QpSpec {
            srq,
            signal_all: setup.signal_all,
            ..QpSpec::new(qp_type, pd, send_cq, recv_cq)
        };
        let qp = hca.create_qp(spec).unwrap();
        Self {
            hca,
            memory: Memory::default(),
            pd,
            send_cq,
            recv_cq,
            srq,
            qp,
            more: Vec::new(),
            gid,
            sent: Vec::new(),
            received: Vec::new(),
            enclosed: Vec::new(),
            events: Vec::new(),
            train: None,
            trains: 0,
        }
    }

    pub(crate) fn name(&self) -> Name {
        self.name_of(self.qp)
    }

    /// Makes another queue pair like the first, in RESET.
    pub(crate) fn another(&mut self) -> QpId {
        let spec = *self.hca.qp_spec(self.qp).unwrap();
        let qp = self.hca.create_qp(spec).unwrap();
        self.more.push(qp);
        qp
    }

    pub(crate) fn name_of(&self, qp: QpId) -> Name {
        Name {
            gid: self.gid,
            qpn: self.hca.qpn(qp).unwrap(),
        }
    }

    /// Takes the queue pair up to `until`.
    pub(crate) fn connect(&mut self, peer: Name, setup: &Setup, until: QpState) {
        self.connect_qp(self.qp, peer, setup, until);
    }

    /// Takes any of its queue pairs up to `until`.
    pub(crate) fn connect_qp(&mut self, qp: QpId, peer: Name, setup: &Setup, until: QpState) {
        let qp_type = self.hca.qp_spec(qp).unwrap().qp_type;
        let mut attr = attributes(peer, setup);
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            attr.state = state;
            let mask = mask(qp_type, state);
            self.hca.modify_qp(qp, &attr, mask).unwrap();
            if state == until {
                return;
            }
        }
    }

    pub(crate) fn modify_state(&mut self, state: QpState) {
        let attr = QpAttr {
            state,
            ..QpAttr::default()
        };
        self.hca.modify_qp(self.qp, &attr, AttrMask::STATE).unwrap();
        self.drain_outputs();
    }

    pub(crate) fn state(&self) -> QpState {
        self.hca.qp_state(self.qp).unwrap()
    }

    pub(crate) fn register(&mut self, length: u32, access: Access) -> Mr {
        self.register_in(self.pd, length, access)
    }

    pub(crate) fn register_in(&mut self, pd: PdId, length: u32, access: Access) -> Mr {
        let region = self.memory.add(length as usize);
        let start = 0x10_0000 * (region as u64 + 1);
        let spec = MrSpec {
            kind: MrKind::User,
            start,
            length: u64::from(length),
            access,
            region: Some(region),
        };
        Mr {
            keys: self.hca.register(pd, spec).unwrap(),
            start,
            length,
            region,
        }
    }

    /// Makes a region with all rights that holds `data`.
    pub(crate) fn holding(&mut self, data: &[u8]) -> Mr {
        let mr = self.register(data.len() as u32, ALL);
        self.memory.fill(mr.region, 0, data);
        mr
    }

    pub(crate) fn bytes(&self, mr: &Mr) -> Vec<u8> {
        self.memory.bytes(mr.region)
    }

    pub(crate) fn post(&mut self, wr: SendWr<Region>) {
        self.hca.post_send(self.qp, wr).unwrap();
    }

    pub(crate) fn send(&mut self, id: u64, op: SendOp<Region>, sges: &[Sge]) {
        self.post(send_wr(id, op, sges));
    }

    /// Sends a plain datagram.
    pub(crate) fn send_to(&mut self, id: u64, to: Name, sges: &[Sge]) {
        let mut wr = send_wr(id, SendOp::Send, sges);
        wr.datagram = Some(datagram(to));
        self.post(wr);
    }

    pub(crate) fn receive(&mut self, id: u64, sges: &[Sge]) {
        let wr = RecvWr {
            id,
            sges: Ok(sges.into()),
        };
        match self.srq {
            Some(srq) => self.hca.post_srq_recv(srq, wr).unwrap(),
            None => self.hca.post_recv(self.qp, wr).unwrap(),
        }
    }
}

pub(crate) fn send_wr(id: u64, op: SendOp<Region>, sges: &[Sge]) -> SendWr<Region> {
    SendWr {
        sges: sges.into(),
        ..SendWr::new(id, op)
    }
}

pub(crate) fn datagram(to: Name) -> Datagram {
    Datagram {
        qpn: to.qpn,
        qkey: QKEY,
        address: address(to, 0),
    }
}

fn address(to: Name, traffic_class: u8) -> Address {
    Address {
        dgid: to.gid,
        traffic_class,
        hop_limit: 64,
        port: 1,
        ..Address::default()
    }
}

pub(crate) fn attributes(peer: Name, setup: &Setup) -> QpAttr {
    QpAttr {
        access: setup.access,
        port: 1,
        qkey: QKEY,
        address: address(peer, setup.traffic_class),
        path_mtu: setup.mtu,
        timeout: setup.timeout,
        retry_count: setup.retry_count,
        rnr_retry: setup.rnr_retry,
        rq_psn: Psn::new(setup.psn),
        sq_psn: Psn::new(setup.psn),
        max_rd_atomic: setup.rd_atomic,
        max_dest_rd_atomic: setup.rd_atomic,
        min_rnr_timer: setup.min_rnr_timer,
        dest_qpn: peer.qpn,
        ..QpAttr::default()
    }
}

/// Returns the masks that the kernel's driver sends.
pub(crate) fn mask(qp_type: QpType, to: QpState) -> AttrMask {
    let bits = match (qp_type, to) {
        (QpType::Rc, QpState::Init) => 0x39,
        (QpType::Rc, QpState::Rtr) => 0x12_9181,
        (QpType::Rc, QpState::Rts) => 0x1_2e01,
        (QpType::Uc, QpState::Init) => 0x39,
        (QpType::Uc, QpState::Rtr) => 0x10_1181,
        (QpType::Ud, QpState::Init) => 0x71,
        (QpType::Gsi, QpState::Init) => 0x51,
        (_, QpState::Rts) => 0x1_0001,
        _ => 1,
    };
    AttrMask::from_bits_retain(bits)
}
