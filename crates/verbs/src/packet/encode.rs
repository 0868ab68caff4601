//! Headers of the packets of units.

use vrdma_wire::{
    Addresses, Aeth, AtomicAckEth, AtomicEth, Bth, Carries, Cnp, Credits, Deth, Ecn, Extension,
    FlowLabel, Ieth, ImmDt, Msn, NakCode, Opcode, Operation, Path, Position, Qpn, Reth, RnrTimer,
    Service, Syndrome, TrafficClass, Transport,
};

use crate::packet::{FrameError, Link};
use crate::unit::{Nak, Request, RequestOp, RequestTail, Response, ResponseBody, Route};
use crate::work::Remote;

/// Position of a packet in its unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnitPacket {
    /// Number of PSNs after the unit's first.
    pub(super) number: u32,
    /// Whether its message begins with it.
    pub(super) first: bool,
    /// Whether its message ends with it.
    pub(super) last: bool,
    /// Whether the unit ends with it.
    pub(super) ends: bool,
}

/// Makes the headers of one packet of a request.
pub(super) fn request_headers<R>(
    request: &Request<R>,
    place: UnitPacket,
    link: &Link,
) -> Result<(Path, Transport), FrameError> {
    let op = match request.op {
        RequestOp::Write { target } => RequestOp::Write {
            target: target.filter(|_| place.first),
        },
        op => op,
    };
    let tail = request.tail.filter(|_| place.last);
    let (operation, extension) = headers_of(&op, tail, request.source);
    let position = Position::new(place.first, place.last);
    let opcode = opcode(request.service, operation, position, extension.carries())?;
    let psn = request.psn.plus(place.number);
    let mut bth = Bth::new(opcode, request.destination, psn);
    bth.solicited = request.solicited && place.last;
    bth.ack_request = request.ack_request && place.ends;
    let ends = Ends {
        source: request.source,
        destination: request.destination,
        ecn: request.service != Service::Ud,
    };
    headers(&request.route, link, ends, bth, extension)
}

/// Makes the headers of one packet of an answer.
pub(super) fn response_headers<R>(
    response: &Response<R>,
    place: UnitPacket,
    link: &Link,
) -> Result<(Path, Transport), FrameError> {
    let (operation, extension) = headers_of_answer(response, place.first || place.last);
    let position = Position::new(place.first, place.last);
    let opcode = opcode(Service::Rc, operation, position, extension.carries())?;
    let psn = response.psn.plus(place.number);
    let bth = Bth::new(opcode, response.destination, psn);
    let ends = Ends {
        source: response.source,
        destination: response.destination,
        ecn: operation == Operation::ReadResponse,
    };
    headers(&response.route, link, ends, bth, extension)
}

/// Makes the headers of a congestion notification, which has no payload.
pub(super) fn congestion_headers(
    route: &Route,
    source: Qpn,
    destination: Qpn,
    link: &Link,
) -> Result<(Path, Transport), FrameError> {
    let ends = Ends {
        source,
        destination,
        ecn: false,
    };
    let bth = Cnp::bth(destination);
    headers(route, link, ends, bth, Extension::Cnp(Cnp))
}

/// The queue pairs of a packet, and whether routers may mark it instead of dropping it.
#[derive(Clone, Copy)]
struct Ends {
    source: Qpn,
    destination: Qpn,
    ecn: bool,
}

fn headers(
    route: &Route,
    link: &Link,
    ends: Ends,
    bth: Bth,
    extension: Extension,
) -> Result<(Path, Transport), FrameError> {
    let path = path(route, link, ends)?.identified(bth.psn.get() as u16);
    let transport = Transport::new(bth, extension).ok_or(FrameError::NotAPacket)?;
    Ok((path, transport))
}

fn opcode(
    service: Service,
    operation: Operation,
    position: Position,
    carries: Carries,
) -> Result<Opcode, FrameError> {
    Opcode::find(service, operation, position, carries).ok_or(FrameError::NotAPacket)
}

fn headers_of(op: &RequestOp, tail: Option<RequestTail>, source: Qpn) -> (Operation, Extension) {
    match *op {
        RequestOp::Send => (Operation::Send, plain(tail)),
        RequestOp::Write { target: None } => (Operation::Write, plain(tail)),
        RequestOp::Write {
            target: Some((remote, length)),
        } => {
            let reth = reth(remote, length);
            let extension = match tail {
                Some(RequestTail::Imm(imm)) => Extension::RemoteImmediate(reth, ImmDt(imm.0)),
                _ => Extension::Remote(reth),
            };
            (Operation::Write, extension)
        }
        RequestOp::Read { remote, length } => {
            (Operation::Read, Extension::Remote(reth(remote, length)))
        }
        RequestOp::CompareSwap {
            remote,
            compare,
            swap,
        } => (Operation::CompareSwap, atomic(remote, swap, compare)),
        RequestOp::FetchAdd { remote, add } => (Operation::FetchAdd, atomic(remote, add, 0)),
        RequestOp::Datagram { qkey } => {
            let deth = Deth { qkey, source };
            let extension = match tail {
                Some(RequestTail::Imm(imm)) => Extension::DatagramImmediate(deth, ImmDt(imm.0)),
                _ => Extension::Datagram(deth),
            };
            (Operation::Send, extension)
        }
    }
}

fn plain(tail: Option<RequestTail>) -> Extension {
    match tail {
        None => Extension::Nothing,
        Some(RequestTail::Imm(imm)) => Extension::Immediate(ImmDt(imm.0)),
        Some(RequestTail::Invalidate(rkey)) => Extension::Invalidate(Ieth { rkey }),
    }
}

fn reth(remote: Remote, length: u32) -> Reth {
    Reth {
        address: remote.addr,
        rkey: remote.rkey,
        length,
    }
}

fn atomic(remote: Remote, swap_or_add: u64, compare: u64) -> Extension {
    Extension::Atomic(AtomicEth {
        address: remote.addr,
        rkey: remote.rkey,
        swap_or_add,
        compare,
    })
}

/// Receives stay with their owner until a message needs one, so they are not counted: the peer may send without limit
/// and is told when none is posted (IBTA 9.7.7.2).
fn headers_of_answer<R>(response: &Response<R>, at_an_end: bool) -> (Operation, Extension) {
    let syndrome = match response.body {
        ResponseBody::Nak(nak) => refusal(nak),
        _ => Syndrome::Ack(Credits::UNLIMITED),
    };
    let aeth = Aeth {
        syndrome,
        msn: Msn::new(response.msn),
    };
    match response.body {
        ResponseBody::Read(_) if at_an_end => (Operation::ReadResponse, Extension::Ack(aeth)),
        ResponseBody::Read(_) => (Operation::ReadResponse, Extension::Nothing),
        ResponseBody::Atomic(original) => {
            let word = AtomicAckEth { original };
            (
                Operation::AtomicAcknowledge,
                Extension::AtomicAck(aeth, word),
            )
        }
        _ => (Operation::Acknowledge, Extension::Ack(aeth)),
    }
}

fn refusal(nak: Nak) -> Syndrome {
    match nak {
        Nak::Sequence => Syndrome::nak(NakCode::Sequence),
        Nak::InvalidRequest => Syndrome::nak(NakCode::InvalidRequest),
        Nak::RemoteAccess => Syndrome::nak(NakCode::RemoteAccess),
        Nak::RemoteOperational => Syndrome::nak(NakCode::RemoteOperational),
        Nak::ReceiverNotReady(code) => {
            Syndrome::ReceiverNotReady(RnrTimer(vrdma_wire::Bits::low(code)))
        }
    }
}

/// Routers may mark payload of connections instead of dropping it: CNPs report the marks (annex A17.9).
fn path(route: &Route, link: &Link, ends: Ends) -> Result<Path, FrameError> {
    let label = FlowLabel::new(route.flow_label);
    let class = TrafficClass(route.traffic_class);
    let traffic_class = if ends.ecn && class.ecn() == Ecn::NotCapable {
        class.with_ecn(Ecn::Capable0)
    } else {
        class
    };
    Ok(Path {
        destination: link.destination,
        source: link.source,
        vlan: link.vlan,
        addresses: Addresses::between(route.sgid, route.dgid, label)
            .ok_or(FrameError::Addresses)?,
        traffic_class,
        hop_limit: route.hop_limit.max(1),
        source_port: flow(route.flow_label, ends).source_port(),
    })
}

/// Returns the label that chooses the UDP port, by which routers tell flows apart: the owner's label, or one made of
/// the two QPNs (annex A17.3.2.1; the folding is that of `rdma_calc_flow_label`).
fn flow(flow_label: u32, ends: Ends) -> FlowLabel {
    if flow_label != 0 {
        return FlowLabel::new(flow_label);
    }
    let product = u64::from(ends.source.get()) * u64::from(ends.destination.get());
    let folded = product ^ product >> 20;
    FlowLabel::new((folded ^ folded >> 40) as u32)
}
