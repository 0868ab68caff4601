//! From packets to units: the contents of a packet, completed by attributes of its queue pair.
//!
//! Packets of connections name only the receiver's queue pair. Their sender, and the number of PSNs that a READ takes,
//! follow from that queue pair's attributes. Whether the addresses are those of its peer is checked with the unit.

use vrdma_wire::{
    Aeth, AtomicEth, Credits, Deth, Extension, NakCode, Operation, Packet, Pkey, Qpn, Reth,
    Service, Syndrome,
};

use crate::hca::Hca;
use crate::memory::Gather;
use crate::packet::{Arrival, Content};
use crate::qp::Qp;
use crate::unit::{Nak, Payload, Request, RequestOp, RequestTail, Response, ResponseBody, Route};
use crate::work::{Imm, Remote};

/// Reason why a packet means nothing to this adapter.
enum Nothing {
    WrongPkey,
    UnknownQp,
    Malformed,
}

impl<R: Clone> Hca<R> {
    /// Returns the meaning of a packet for this adapter. It is `None`, and counted, for a foreign partition, a queue
    /// pair that does not exist or is of another service, and a syndrome without a meaning.
    pub fn decode<'p>(&mut self, packet: &Packet<'p>) -> Option<Arrival<'p, R>> {
        match self.content(packet) {
            Ok(content) => Some(Arrival {
                content,
                payload: packet.payload(),
                marked: packet.met_congestion(),
                credits: credits(packet),
                ends: packet.info().position.ends(),
            }),
            Err(reason) => {
                let drops = &mut self.shared.counters.drops;
                *match reason {
                    Nothing::WrongPkey => &mut drops.wrong_pkey,
                    Nothing::UnknownQp => &mut drops.unknown_qp,
                    Nothing::Malformed => &mut drops.malformed,
                } += 1;
                None
            }
        }
    }

    /// Returns the content of a packet. The only partition is the default one (IBTA 9.6.1).
    fn content(&self, packet: &Packet<'_>) -> Result<Content<R>, Nothing> {
        let (bth, info) = (packet.bth(), packet.info());
        if !Pkey::DEFAULT.matches(bth.pkey) {
            return Err(Nothing::WrongPkey);
        }
        match (info.service, packet.extension()) {
            (Service::Cnp, _) => Ok(Content::Congestion(bth.destination)),
            (Service::Ud, Extension::Datagram(deth)) => {
                Ok(Content::Request(datagram(packet, deth, None)))
            }
            (Service::Ud, Extension::DatagramImmediate(deth, imm)) => {
                let tail = Some(RequestTail::Imm(Imm(imm.0)));
                Ok(Content::Request(datagram(packet, deth, tail)))
            }
            _ => self.connected(packet),
        }
    }

    fn connected(&self, packet: &Packet<'_>) -> Result<Content<R>, Nothing> {
        let qp = self.named(packet.bth().destination, packet.info().service);
        let qp = qp.ok_or(Nothing::UnknownQp)?;
        if packet.info().operation.is_request() {
            Ok(Content::Request(qp.request(packet)))
        } else {
            let response = qp.response_in(packet).ok_or(Nothing::Malformed)?;
            Ok(Content::Response(response))
        }
    }

    fn named(&self, qpn: Qpn, service: Service) -> Option<&Qp<R>> {
        let qp = self.qps.named(qpn)?;
        let right = qp.is_connected() && qp.spec.qp_type.service() == service;
        right.then_some(qp)
    }
}

/// Returns the route by which a packet came.
fn route(packet: &Packet<'_>) -> Route {
    Route {
        sgid: packet.sgid(),
        dgid: packet.dgid(),
        traffic_class: packet.ip().traffic_class().0,
        flow_label: packet.ip().flow_label().get(),
        hop_limit: packet.ip().hop_limit(),
        dmac: None,
    }
}

fn datagram<R>(packet: &Packet<'_>, deth: &Deth, tail: Option<RequestTail>) -> Request<R> {
    Request {
        service: Service::Ud,
        source: deth.source,
        op: RequestOp::Datagram { qkey: deth.qkey },
        tail,
        ..bare(packet)
    }
}

/// Makes a request of one packet from the fields that every packet has.
fn bare<R>(packet: &Packet<'_>) -> Request<R> {
    let (bth, info) = (packet.bth(), packet.info());
    Request {
        route: route(packet),
        path: None,
        service: info.service,
        source: Qpn::default(),
        destination: bth.destination,
        psn: bth.psn,
        packets: 1,
        first: info.position.starts(),
        last: info.position.ends(),
        op: RequestOp::Send,
        tail: None,
        solicited: bth.solicited,
        ack_request: bth.ack_request,
        payload: Payload::default(),
    }
}

impl<R> Qp<R> {
    fn request(&self, packet: &Packet<'_>) -> Request<R> {
        let (op, tail) = operation(packet);
        let packets = match op {
            RequestOp::Read { length, .. } => self.attr.path_mtu.packets(length),
            _ => 1,
        };
        Request {
            source: self.attr.dest_qpn,
            packets,
            op,
            tail,
            ..bare(packet)
        }
    }

    fn response_in(&self, packet: &Packet<'_>) -> Option<Response<R>> {
        let aeth = match packet.extension() {
            Extension::Ack(aeth) | Extension::AtomicAck(aeth, _) => Some(aeth),
            _ => None,
        };
        Some(Response {
            route: route(packet),
            source: self.attr.dest_qpn,
            destination: self.qpn,
            psn: packet.bth().psn,
            msn: aeth.map_or(0, |aeth| aeth.msn.get()),
            body: body(packet, aeth)?,
        })
    }
}

fn operation(packet: &Packet<'_>) -> (RequestOp, Option<RequestTail>) {
    let tail = match packet.extension() {
        Extension::Immediate(imm) | Extension::RemoteImmediate(_, imm) => {
            Some(RequestTail::Imm(Imm(imm.0)))
        }
        Extension::Invalidate(ieth) => Some(RequestTail::Invalidate(ieth.rkey)),
        _ => None,
    };
    let op = match (packet.info().operation, packet.extension()) {
        (Operation::Read, Extension::Remote(reth)) => RequestOp::Read {
            remote: remote(reth),
            length: reth.length,
        },
        (Operation::CompareSwap, Extension::Atomic(atomic)) => RequestOp::CompareSwap {
            remote: word(atomic),
            compare: atomic.compare,
            swap: atomic.swap_or_add,
        },
        (Operation::FetchAdd, Extension::Atomic(atomic)) => RequestOp::FetchAdd {
            remote: word(atomic),
            add: atomic.swap_or_add,
        },
        (Operation::Write, Extension::Remote(reth) | Extension::RemoteImmediate(reth, _)) => {
            RequestOp::Write {
                target: Some((remote(reth), reth.length)),
            }
        }
        (Operation::Write, _) => RequestOp::Write { target: None },
        _ => RequestOp::Send,
    };
    (op, tail)
}

fn remote(reth: &Reth) -> Remote {
    Remote {
        addr: reth.address,
        rkey: reth.rkey,
    }
}

fn word(atomic: &AtomicEth) -> Remote {
    Remote {
        addr: atomic.address,
        rkey: atomic.rkey,
    }
}

/// Returns the body of a response; `None` for a syndrome that has no meaning, or none with that opcode (IBTA 9.7.5.1).
fn body<R>(packet: &Packet<'_>, aeth: Option<&Aeth>) -> Option<ResponseBody<R>> {
    let positive = aeth.is_none_or(|aeth| matches!(aeth.syndrome, Syndrome::Ack(_)));
    match (packet.info().operation, packet.extension()) {
        (Operation::ReadResponse, _) => positive.then(|| ResponseBody::Read(Gather::new())),
        (_, Extension::AtomicAck(_, word)) => {
            positive.then_some(ResponseBody::Atomic(word.original))
        }
        _ => match aeth?.syndrome {
            Syndrome::Ack(_) => Some(ResponseBody::Ack),
            Syndrome::ReceiverNotReady(timer) => {
                Some(ResponseBody::Nak(Nak::ReceiverNotReady(timer.0.get())))
            }
            Syndrome::Nak(code) => Some(ResponseBody::Nak(nak(NakCode::from_bits(code)?))),
            Syndrome::Reserved(_) => None,
        },
    }
}

/// Returns the credits of the peer. It is undefined whether the first packet of READ data counts the READ, so only the
/// last packet is used.
fn credits(packet: &Packet<'_>) -> Option<Credits> {
    match packet.extension() {
        Extension::Ack(aeth) | Extension::AtomicAck(aeth, _) => match aeth.syndrome {
            Syndrome::Ack(credits) if packet.info().position.ends() => Some(credits),
            _ => None,
        },
        _ => None,
    }
}

fn nak(code: NakCode) -> Nak {
    match code {
        NakCode::Sequence => Nak::Sequence,
        NakCode::InvalidRequest => Nak::InvalidRequest,
        NakCode::RemoteAccess => Nak::RemoteAccess,
        NakCode::RemoteOperational => Nak::RemoteOperational,
    }
}
