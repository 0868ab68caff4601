//! Units that no honest peer sends. They never cause a panic, never touch a byte outside what the peer was given, and
//! every receive completes at most once.

use proptest::prelude::*;
use vrdma_verbs::memory::Stretch;
use vrdma_verbs::object::QpType;
use vrdma_verbs::unit::{
    Nak, Payload, Request, RequestOp, RequestTail, Response, ResponseBody, Route,
};
use vrdma_verbs::work::{Imm, Remote, SendOp};
use vrdma_wire::{Mtu, Rkey};

use crate::pair::node::{ALL, QKEY};
use crate::pair::{Pair, Region, Setup};

/// A unit as small numbers, which the names of a pair will complete.
#[derive(Clone, Debug)]
struct Draft {
    op: u8,
    psn: u32,
    packets: u32,
    first: bool,
    last: bool,
    tail: u8,
    offset: u64,
    length: u32,
    payload: Vec<u32>,
    from_a_stranger: bool,
}

prop_compose! {
    fn draft()(
        op in 0u8..7,
        psn in prop_oneof![4 => 0u32..4, 1 => any::<u32>()],
        packets in prop_oneof![4 => 0u32..4, 1 => any::<u32>()],
        (first, last) in any::<(bool, bool)>(),
        tail in 0u8..4,
        offset in prop_oneof![4 => 0u64..80, 1 => any::<u64>()],
        length in prop_oneof![4 => 0u32..1200, 1 => any::<u32>()],
        payload in prop::collection::vec(prop_oneof![0u32..4, Just(256), 0u32..600, Just(u32::MAX)], 0..3),
        stranger in 0u8..20,
    ) -> Draft {
        let from_a_stranger = stranger == 0;
        Draft { op, psn, packets, first, last, tail, offset, length, payload, from_a_stranger }
    }
}

/// The memory that the peer was given: the first half of a region.
struct Target {
    pair: Pair,
    remote: Remote,
    region: Region,
    source: Region,
}

/// Bytes of the region that the peer was given, from its start on.
const GIVEN: usize = 1024;

impl Target {
    fn new(qp_type: QpType) -> Self {
        let setup = Setup {
            mtu: Mtu::B256,
            psn: 0,
            ..Setup::default()
        };
        let mut pair = Pair::with(qp_type, setup);
        let node = pair.b();
        let region = node.memory.add(2048);
        let spec = vrdma_verbs::object::MrSpec {
            kind: vrdma_verbs::object::MrKind::User,
            start: 0x1000,
            length: GIVEN as u64,
            access: ALL,
            region: Some(region),
        };
        let keys = node.hca.register(node.pd, spec).unwrap();
        let remote = Remote {
            addr: 0x1000,
            rkey: keys.rkey,
        };
        let room = node.register(300, ALL);
        for id in 0..100 {
            node.receive(id, &[room.part(0, 100), room.part(100, 200)]);
        }
        let source = pair.a().memory.add(4096);
        pair.a().memory.fill(source, 0, &[0xaa; 4096]);
        Self {
            pair,
            remote,
            region,
            source,
        }
    }

    fn route(&self, draft: &Draft) -> Route {
        let [a, b] = &self.pair.nodes;
        Route {
            sgid: if draft.from_a_stranger { b.gid } else { a.gid },
            dgid: b.gid,
            ..Route::default()
        }
    }

    fn payload(&self, draft: &Draft) -> vrdma_verbs::memory::Gather<Region> {
        let parts = draft.payload.iter().map(|length| Stretch {
            region: self.source,
            offset: 0,
            length: *length,
        });
        parts.collect()
    }

    fn request(&self, draft: &Draft) -> Request<Region> {
        let remote = Remote {
            addr: self.remote.addr.wrapping_add(draft.offset),
            rkey: Rkey(self.remote.rkey.0 ^ u32::from(draft.tail == 3)),
        };
        let op = match draft.op {
            0 => RequestOp::Send,
            1 => RequestOp::Write {
                target: Some((remote, draft.length)),
            },
            2 => RequestOp::Write { target: None },
            3 => RequestOp::Read {
                remote,
                length: draft.length,
            },
            4 => RequestOp::FetchAdd { remote, add: 1 },
            5 => RequestOp::CompareSwap {
                remote,
                compare: 0,
                swap: 1,
            },
            _ => RequestOp::Datagram { qkey: QKEY },
        };
        let tail = match draft.tail {
            1 => Some(RequestTail::Imm(Imm([1; 4]))),
            2 => Some(RequestTail::Invalidate(remote.rkey)),
            _ => None,
        };
        let [a, b] = &self.pair.nodes;
        let expected = b.hca.query_qp(b.qp).unwrap().rq_psn;
        Request {
            route: self.route(draft),
            path: None,
            service: b.hca.qp_spec(b.qp).unwrap().qp_type.service(),
            source: a.name().qpn,
            destination: b.name().qpn,
            psn: expected.plus(draft.psn),
            packets: draft.packets,
            first: draft.first,
            last: draft.last,
            op,
            tail,
            solicited: false,
            ack_request: true,
            payload: Payload::Memory(self.payload(draft)),
        }
    }

    fn response(&self, draft: &Draft) -> Response<Region> {
        let body = match draft.op {
            0 => ResponseBody::Ack,
            1 => ResponseBody::Read(self.payload(draft)),
            2 => ResponseBody::Atomic(draft.offset),
            3 => ResponseBody::Nak(Nak::Sequence),
            4 => ResponseBody::Nak(Nak::ReceiverNotReady(draft.offset as u8)),
            5 => ResponseBody::SourceFault,
            _ => ResponseBody::Nak(Nak::RemoteAccess),
        };
        let [a, b] = &self.pair.nodes;
        Response {
            route: self.route(draft),
            source: a.name().qpn,
            destination: b.name().qpn,
            psn: vrdma_wire::Psn::new(draft.psn),
            msn: draft.length,
            body,
        }
    }

    fn check(&self) {
        let node = &self.pair.nodes[1];
        let bytes = node.memory.bytes(self.region);
        assert!(bytes[GIVEN..].iter().all(|byte| *byte == 0));
        let mut ids: Vec<_> = node.receives().into_iter().map(|(id, _)| id).collect();
        let count = ids.len();
        ids.dedup();
        assert!(ids.is_sorted() && ids.len() == count);
    }
}

proptest! {
    #[test]
    fn requests_do_no_harm(
        drafts in prop::collection::vec(draft(), 1..40),
        qp_type in prop_oneof![Just(QpType::Rc), Just(QpType::Uc), Just(QpType::Ud)],
    ) {
        let mut target = Target::new(qp_type);
        for draft in &drafts {
            let request = target.request(draft);
            target.pair.b().hca.wants_receive(&request);
            target.pair.deliver(1, &request);
        }
        target.check();
    }

    #[test]
    fn responses_do_no_harm(drafts in prop::collection::vec(draft(), 1..40)) {
        let mut target = Target::new(QpType::Rc);
        let node = target.pair.b();
        let local = node.register(2000, ALL);
        let remote = target.remote;
        for id in 0..6 {
            let op = match id % 3 {
                0 => SendOp::Read(remote),
                1 => SendOp::FetchAdd { remote, add: 1 },
                _ => SendOp::Write(remote),
            };
            node.send(id, op, &[local.part(0, 900), local.part(1000, 900)]);
        }
        target.pair.transmit(1);
        for draft in &drafts {
            let response = target.response(draft);
            target.pair.respond(1, &response);
            target.pair.transmit(1);
        }
        let gap = &target.pair.nodes[1].bytes(&local)[900..1000];
        prop_assert!(gap.iter().all(|byte| *byte == 0));
        let sends = target.pair.nodes[1].sends();
        prop_assert!(sends.iter().map(|(id, _)| *id).eq(0..sends.len() as u64));
    }
}
