//! Requests and responses of another adapter of the host with a broken front end.

use vrdma_verbs::Source;
use vrdma_verbs::memory::{Gather, Stretch};
use vrdma_verbs::unit::{
    Nak, Payload, Request, RequestOp, RequestTail, Response, ResponseBody, Route,
};
use vrdma_verbs::work::{Imm, Remote};
use vrdma_wire::{Psn, Qpn, Rkey};

use super::memory::{Memory, Region};
use super::node::{GIVEN_AT, KINDS, Node, PEER, QKEY, own_gid, peer_gid};
use crate::input::Input;

/// Bytes of the peer's memory that payload is taken from.
const SOURCE_BYTES: usize = 4096;

/// Runs an input as a script of units and of actions of the owner.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut node = Node::new();
    let peer = Memory::default();
    let source = peer.add(vec![0xaa; SOURCE_BYTES]);
    while !input.is_empty() {
        match input.below(4) {
            0 => node.live(&mut input),
            1 => {
                let response = response(&node, source, &mut input);
                let from = Source::Memory(&peer);
                node.hca.respond(&response, from, &node.memory, node.now);
            }
            _ => {
                let request = request(&node, source, &mut input);
                node.hca.wants_receive(&request);
                node.hca
                    .deliver(&request, Source::Memory(&peer), &node.memory);
            }
        }
        node.drain();
    }
    node.check();
}

fn route(input: &mut Input<'_>) -> Route {
    let is_stranger = input.byte() == 0xff;
    Route {
        sgid: if is_stranger { own_gid() } else { peer_gid() },
        dgid: own_gid(),
        ..Route::default()
    }
}

fn payload(source: Region, input: &mut Input<'_>) -> Gather<Region> {
    let parts = (0..input.below(4)).map(|_| Stretch {
        region: source,
        offset: input.number(),
        length: input.number() as u32 & 0xf_ffff,
    });
    parts.collect()
}

fn number(node: &Node, at: usize) -> Qpn {
    node.hca.qpn(node.qps[at]).expect("it is there")
}

fn request(node: &Node, source: Region, input: &mut Input<'_>) -> Request<Region> {
    let at = input.below(KINDS.len());
    let remote = Remote {
        addr: GIVEN_AT.wrapping_add(input.number()),
        rkey: Rkey(node.given.rkey.0 ^ u32::from(input.byte() == 0xff)),
    };
    let length = input.number() as u32;
    let op = match input.below(7) {
        0 => RequestOp::Send,
        1 => RequestOp::Write {
            target: Some((remote, length)),
        },
        2 => RequestOp::Write { target: None },
        3 => RequestOp::Read { remote, length },
        4 => RequestOp::FetchAdd { remote, add: 1 },
        5 => RequestOp::CompareSwap {
            remote,
            compare: 0,
            swap: 1,
        },
        _ => RequestOp::Datagram { qkey: QKEY },
    };
    let tail = match input.below(4) {
        1 => Some(RequestTail::Imm(Imm([1; 4]))),
        2 => Some(RequestTail::Invalidate(remote.rkey)),
        _ => None,
    };
    let expected = node.hca.query_qp(node.qps[at]).map(|attr| attr.rq_psn);
    let flags = input.byte();
    Request {
        route: route(input),
        path: None,
        service: KINDS[at].service(),
        source: PEER,
        destination: number(node, at),
        psn: expected.unwrap_or_default().plus(input.number() as u32),
        packets: input.number() as u32,
        first: flags & 1 != 0,
        last: flags & 2 != 0,
        op,
        tail,
        solicited: flags & 4 != 0,
        ack_request: flags & 8 != 0,
        payload: Payload::Memory(payload(source, input)),
    }
}

fn response(node: &Node, source: Region, input: &mut Input<'_>) -> Response<Region> {
    let body = match input.below(9) {
        0 | 1 => ResponseBody::Ack,
        2 => ResponseBody::Read(payload(source, input)),
        3 => ResponseBody::Atomic(input.number()),
        4 => ResponseBody::Nak(Nak::Sequence),
        5 => ResponseBody::Nak(Nak::ReceiverNotReady(input.byte())),
        6 => ResponseBody::SourceFault,
        7 => ResponseBody::Nak(Nak::InvalidRequest),
        _ => ResponseBody::Nak(Nak::RemoteAccess),
    };
    Response {
        route: route(input),
        source: PEER,
        destination: number(node, input.below(KINDS.len())),
        psn: Psn::new(input.number() as u32),
        msn: input.number() as u32,
        body,
    }
}
