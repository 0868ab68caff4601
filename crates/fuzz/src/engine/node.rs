//! One adapter with a queue pair of each kind in RTS, and a peer that is only an address.

use std::net::Ipv4Addr;

use vrdma_verbs::attr::{Access, Address, AttrMask, QpAttr, QpState};
use vrdma_verbs::object::{
    Identity, Limits, MrKeys, MrKind, MrSpec, Owner, PdId, QpId, QpSpec, QpType,
};
use vrdma_verbs::work::{Output, RecvWr, Remote, SendOp, SendWr, Sge};
use vrdma_verbs::{Hca, Pace, Time};
use vrdma_wire::{Gid, Mac, Mtu, Psn, Qkey, Qpn};

use super::memory::{Memory, Region};
use crate::input::Input;

pub(super) const QKEY: Qkey = Qkey(0x1111);

/// The peer's queue pair.
pub(super) const PEER: Qpn = Qpn::from_low_bits(0x77);

/// Address of the region that is given to the peer, and its length in the buffer.
pub(super) const GIVEN_AT: u64 = 0x1000;
pub(super) const GIVEN: usize = 1024;

/// The longest unit, short enough that messages take several.
const UNIT_BYTES: u32 = 512;

/// Kinds of requests that the owner posts, as long as there is room.
const SENDS: usize = 4;

pub(super) struct Node {
    pub(super) hca: Hca<Region>,
    pub(super) memory: Memory,
    pub(super) now: Time,
    pd: PdId,
    pub(super) qps: [QpId; 3],
    /// Keys of the peer's region: the first half of a buffer.
    pub(super) given: MrKeys,
    half_given: Region,
    own: MrKeys,
    own_region: Region,
    sent: u64,
}

pub(super) const KINDS: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];

pub(super) fn own_gid() -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 1))
}

pub(super) fn peer_gid() -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 2))
}

const LIMITS: Limits = Limits {
    pds: 4,
    mrs: 16,
    cqs: 4,
    qps: 8,
    srqs: 2,
    gids: 4,
    rd_atomic: 4,
    message_bytes: 1 << 20,
    port_mtu: Mtu::B4096,
};

impl Node {
    pub(super) fn new() -> Self {
        let identity = Identity {
            mac: Mac([2, 0, 0, 0, 0, 1]),
            seed: 1,
        };
        let mut hca = Hca::new(identity, LIMITS);
        hca.bind_gid(0, own_gid()).expect("the table is empty");
        let pd = hca.create_pd(Owner::KERNEL).expect("there is room");
        let cq = hca.create_cq(Owner::KERNEL).expect("there is room");
        let qps = KINDS.map(|kind| {
            let spec = QpSpec {
                signal_all: true,
                ..QpSpec::new(kind, pd, cq, cq)
            };
            hca.create_qp(spec).expect("there is room")
        });
        let memory = Memory::default();
        let half_given = memory.add(vec![0; 2 * GIVEN]);
        let own_region = memory.add(vec![0; 2048]);
        let mut register = |start, length, region| {
            let spec = MrSpec {
                kind: MrKind::User,
                start,
                length,
                access: Access::all(),
                region: Some(region),
            };
            hca.register(pd, spec).expect("there is room")
        };
        let given = register(GIVEN_AT, GIVEN as u64, half_given);
        let own = register(0, 2048, own_region);
        let mut node = Self {
            hca,
            memory,
            now: Time(0),
            pd,
            qps,
            given,
            half_given,
            own,
            own_region,
            sent: 0,
        };
        (0..KINDS.len()).for_each(|at| node.connect(at));
        node
    }

    fn connect(&mut self, at: usize) {
        let mut attr = QpAttr {
            access: Access::all(),
            port: 1,
            qkey: QKEY,
            address: to_peer(),
            path_mtu: Mtu::B256,
            timeout: 14,
            retry_count: 3,
            rnr_retry: 3,
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            min_rnr_timer: 12,
            dest_qpn: PEER,
            ..QpAttr::default()
        };
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            attr.state = state;
            let mask = mask(KINDS[at], state);
            let changed = self.hca.modify_qp(self.qps[at], &attr, mask);
            changed.expect("a driver's attributes suffice");
        }
    }

    /// An action of the owner: connects again what failed, posts, or lets time pass.
    pub(super) fn live(&mut self, input: &mut Input<'_>) {
        let at = input.below(KINDS.len());
        match input.below(4) {
            0 => self.receive(at, input),
            1 => self.send(at, input),
            2 => {
                self.now = Time(self.now.0 + input.number().min(1 << 36));
                self.hca.handle_timeout(self.now);
            }
            _ => self.begin_again(at),
        }
        self.drain();
    }

    fn begin_again(&mut self, at: usize) {
        let reset = QpAttr {
            state: QpState::Reset,
            ..QpAttr::default()
        };
        let changed = self.hca.modify_qp(self.qps[at], &reset, AttrMask::STATE);
        changed.expect("a queue pair can be reset in any state");
        self.connect(at);
    }

    fn part(&self, input: &mut Input<'_>) -> Sge {
        let offset = u64::from(input.byte());
        Sge {
            addr: offset,
            length: u32::from(input.half() % 900),
            lkey: self.own.lkey,
        }
    }

    fn receive(&mut self, at: usize, input: &mut Input<'_>) {
        let parts = [self.part(input), self.part(input)];
        let wr = RecvWr {
            id: 7,
            sges: Ok(parts[..].into()),
        };
        // A full queue refuses the request.
        let _posted = self.hca.post_recv(self.qps[at], wr);
    }

    fn send(&mut self, at: usize, input: &mut Input<'_>) {
        // Front ends turn datagrams without a destination into requests that fail.
        if KINDS[at] == QpType::Ud || self.hca.send_room(self.qps[at]) == 0 {
            return;
        }
        self.sent += 1;
        let remote = Remote {
            addr: GIVEN_AT,
            rkey: self.given.rkey,
        };
        let op = match input.below(SENDS) {
            0 => SendOp::Send,
            1 => SendOp::Read(remote),
            2 => SendOp::FetchAdd { remote, add: 1 },
            _ => SendOp::Write(remote),
        };
        let sges = [self.part(input)];
        let wr = SendWr {
            sges: sges[..].into(),
            ..SendWr::new(self.sent, op)
        };
        let _posted = self.hca.post_send(self.qps[at], wr);
        self.transmit();
    }

    /// Takes all outgoing packets, which are lost: peers that break all rules answer anything.
    fn transmit(&mut self) {
        let mut pace = Pace::Wire;
        while let Some(qp) = self.hca.next_ready() {
            while self
                .hca
                .poll_transmit(qp, self.now, UNIT_BYTES, &mut pace)
                .is_some()
            {}
        }
    }

    pub(super) fn drain(&mut self) {
        self.transmit();
        while self.hca.poll_reply(self.now, &mut Pace::Wire).is_some() {}
        while let Some(output) = self.hca.poll_output() {
            if let Output::SendDone { qp, .. } = output {
                assert!(self.qps.contains(&qp));
            }
        }
    }

    /// Checks that memory that the peer was not given is untouched, and that a saved state can be restored and is the
    /// same.
    pub(super) fn check(&mut self) {
        assert!(self.memory.is_untouched(self.half_given, GIVEN..2 * GIVEN));
        self.drain();
        let name = |region: &Region| region.to_le_bytes().to_vec();
        let saved = self.hca.save(name).expect("nothing is under way");
        let find = |name: &[u8]| name.try_into().ok().map(Region::from_le_bytes);
        let restored = Hca::<Region>::restore(&saved, find).expect("what is saved can be restored");
        assert_eq!(restored.save(name).as_ref(), Ok(&saved));
        assert!(self.hca.owner_of_pd(self.pd).is_some() && self.own_region != self.half_given);
    }
}

fn to_peer() -> Address {
    Address {
        dgid: peer_gid(),
        hop_limit: 64,
        port: 1,
        ..Address::default()
    }
}

/// The attribute masks that the kernel's driver sends.
fn mask(kind: QpType, to: QpState) -> AttrMask {
    let bits = match (kind, to) {
        (QpType::Rc | QpType::Uc, QpState::Init) => 0x39,
        (QpType::Rc, QpState::Rtr) => 0x12_9181,
        (QpType::Rc, QpState::Rts) => 0x1_2e01,
        (QpType::Uc, QpState::Rtr) => 0x10_1181,
        (_, QpState::Init) => 0x71,
        (_, QpState::Rts) => 0x1_0001,
        _ => 1,
    };
    AttrMask::from_bits_retain(bits)
}
