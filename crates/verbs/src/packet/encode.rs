//! Units to frames.

use vrdma_wire::{
    Addresses, Aeth, AtomicAckEth, AtomicEth, Bth, Carries, Cnp, Credits, Deth, Ecn, Extension,
    FlowLabel, Ieth, ImmDt, Msn, NakCode, Opcode, Operation, PacketBuilder, Path, Position, Qpn,
    Reth, RnrTimer, Service, Syndrome, TrafficClass, Transport,
};

use crate::buffers::Carried;
use crate::memory::{Memory, Source};
use crate::packet::{FrameError, Link, Reply};
use crate::unit::{Nak, Request, RequestOp, RequestTail, Response, ResponseBody, Route};
use crate::work::Remote;

/// The frame of a request, written to the front of `buffer`, which need not be larger than
/// [`vrdma_wire::MAX_FRAME`].
///
/// # Errors
/// See [`FrameError`]; with `Payload` tell the requester by [`Request::payload_lost`].
pub fn request_frame<'b, M: Memory>(
    request: &Request<M::Region>,
    memory: &M,
    link: &Link,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], FrameError> {
    let (operation, extension) = request_headers(request);
    let position = Position::new(request.first, request.last);
    let opcode = opcode(request.service, operation, position, extension.carries())?;
    let mut bth = Bth::new(opcode, request.destination, request.psn);
    bth.solicited = request.solicited;
    bth.ack_request = request.ack_request;
    let ends = (request.source, request.destination);
    let path = path(&request.route, link, ends, request.service != Service::Ud)?;
    let content = Carried::request(&request.payload, Source::Memory(memory));
    build(&path, (bth, extension), content, buffer)
}

/// Where a packet stands in a unit of several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// PSNs behind the unit's first.
    pub(super) number: u32,
    /// Its message begins with it.
    pub(super) first: bool,
    /// Its message ends with it.
    pub(super) last: bool,
    /// The unit ends with it.
    pub(super) ends: bool,
}

/// Headers of one packet of a request of several.
pub(super) fn request_headers_at<R>(
    request: &Request<R>,
    place: Place,
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
    let ends = (request.source, request.destination);
    headers(&request.route, link, (ends, true), (bth, extension))
}

/// Headers of one packet of READ data.
pub(super) fn reply_headers<R>(
    response: &Response<R>,
    place: Place,
    link: &Link,
) -> Result<(Path, Transport), FrameError> {
    let (operation, extension) = response_headers(response, place.first || place.last);
    let position = Position::new(place.first, place.last);
    let opcode = opcode(Service::Rc, operation, position, extension.carries())?;
    let bth = Bth::new(
        opcode,
        response.destination,
        response.psn.plus(place.number),
    );
    let ends = (response.source, response.destination);
    headers(&response.route, link, (ends, true), (bth, extension))
}

fn headers(
    route: &Route,
    link: &Link,
    (ends, capable): ((Qpn, Qpn), bool),
    (bth, extension): (Bth, Extension),
) -> Result<(Path, Transport), FrameError> {
    let path = path(route, link, ends, capable)?.identified(bth.psn.get() as u16);
    let transport = Transport::new(bth, extension).ok_or(FrameError::NotAPacket)?;
    Ok((path, transport))
}

/// The frame of an answer, as [`request_frame`].
///
/// # Errors
/// See [`FrameError`].
pub fn reply_frame<'b, M: Memory>(
    reply: &Reply<M::Region>,
    memory: &M,
    link: &Link,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], FrameError> {
    match reply {
        Reply::Response {
            response,
            packets: _,
            first,
            last,
        } => {
            let (operation, extension) = response_headers(response, *first || *last);
            let position = Position::new(*first, *last);
            let opcode = opcode(Service::Rc, operation, position, extension.carries())?;
            let bth = Bth::new(opcode, response.destination, response.psn);
            let content = match &response.body {
                ResponseBody::Read(data) => Carried::Stretches(data, memory),
                _ => Carried::Bytes(&[]),
            };
            let ends = (response.source, response.destination);
            let path = path(
                &response.route,
                link,
                ends,
                operation == Operation::ReadResponse,
            )?;
            build(&path, (bth, extension), content, buffer)
        }
        Reply::Congestion {
            route,
            source,
            destination,
        } => {
            let path = path(route, link, (*source, *destination), false)?;
            let headers = (Cnp::bth(*destination), Extension::Cnp(Cnp));
            build(&path, headers, Carried::<_, M>::Bytes(&[]), buffer)
        }
    }
}

fn build<'b, M: Memory>(
    path: &Path,
    (bth, extension): (Bth, Extension),
    content: Carried<'_, M::Region, M>,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], FrameError> {
    let transport = Transport::new(bth, extension).ok_or(FrameError::NotAPacket)?;
    let length = usize::try_from(content.length()).map_err(|_| FrameError::NotAPacket)?;
    let path = path.identified(bth.psn.get() as u16);
    let mut builder = PacketBuilder::new(&path, &transport, length, buffer)?;
    let (stretches, memory) = match content {
        Carried::Stretches(stretches, memory) => (stretches, memory),
        Carried::Bytes(bytes) => {
            builder.push(bytes);
            return Ok(builder.finish());
        }
    };
    for part in stretches {
        builder = builder
            .push_with(part.length as usize, |room| {
                memory.read(&part.region, part.offset, room)
            })
            .map_err(FrameError::Payload)?;
    }
    Ok(builder.finish())
}

fn opcode(
    service: Service,
    operation: Operation,
    position: Position,
    carries: Carries,
) -> Result<Opcode, FrameError> {
    Opcode::find(service, operation, position, carries).ok_or(FrameError::NotAPacket)
}

fn request_headers<R>(request: &Request<R>) -> (Operation, Extension) {
    headers_of(&request.op, request.tail, request.source)
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

/// Receives are in the owner's hands until a message needs one, so nobody counts them: the peer may
/// send as it likes and is told when none is posted (IBTA 9.7.7.2).
fn response_headers<R>(response: &Response<R>, at_an_end: bool) -> (Operation, Extension) {
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

/// Payload of connections may be marked by routers instead of dropped: CNPs will tell us (annex
/// A17.9).
fn path(route: &Route, link: &Link, ends: (Qpn, Qpn), capable: bool) -> Result<Path, FrameError> {
    let label = FlowLabel::new(route.flow_label);
    let class = TrafficClass(route.traffic_class);
    let traffic_class = if capable && class.ecn() == Ecn::NotCapable {
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

/// The label that chooses the UDP port, by which routers tell flows apart: that of the owner, or one
/// made of the two numbers (annex A17.3.2.1; the folding is that of `rdma_calc_flow_label`).
fn flow(flow_label: u32, (source, destination): (Qpn, Qpn)) -> FlowLabel {
    if flow_label != 0 {
        return FlowLabel::new(flow_label);
    }
    let product = u64::from(source.get()) * u64::from(destination.get());
    let folded = product ^ product >> 20;
    FlowLabel::new((folded ^ folded >> 40) as u32)
}
