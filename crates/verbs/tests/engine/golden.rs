//! Packets that Linux rxe sent (see `crates/wire/testdata/README.md`): each becomes a unit of the same meaning, and
//! that unit becomes the same packet again.

use std::path::Path;

use vrdma_verbs::memory::Stretch;
use vrdma_verbs::object::QpType;
use vrdma_verbs::packet::{Content, Reply};
use vrdma_verbs::unit::{Nak, Payload, Request, RequestOp, RequestTail, Response, ResponseBody};
use vrdma_wire::{
    Bth, Extension, MAX_FRAME, Mtu, Operation, Packet, PacketBuilder, Qpn, Service, Syndrome,
    Transport,
};

use crate::pair::{Node, Pair, Region, Setup};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// Reads the frames of one capture (pcap, little-endian).
fn frames(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/testdata");
    let file = std::fs::read(folder.join(name)).unwrap();
    let mut rest = &file[FILE_HEADER..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (header, data) = rest.split_at(RECORD_HEADER);
        let length = u32::from_le_bytes(header[8..12].try_into().unwrap());
        let (frame, after) = data.split_at(length as usize);
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}

/// Makes the same packet for another queue pair.
fn readdressed(packet: &Packet<'_>, destination: Qpn) -> Vec<u8> {
    let bth = Bth {
        destination,
        ..*packet.bth()
    };
    let transport = Transport::new(bth, *packet.extension()).unwrap();
    let mut buffer = [0; MAX_FRAME];
    let payload = packet.payload();
    let builder = PacketBuilder::new(&packet.path(), &transport, payload.len(), &mut buffer);
    let mut builder = builder.unwrap();
    builder.push(payload);
    builder.finish().to_vec()
}

/// Makes a node whose queue pair takes the service's packets, at the captures' path MTU.
fn node(service: Service) -> Pair {
    let qp_type = match service {
        Service::Uc => QpType::Uc,
        Service::Ud => QpType::Ud,
        _ => QpType::Rc,
    };
    let setup = Setup {
        mtu: Mtu::B256,
        ..Setup::default()
    };
    Pair::with(qp_type, setup)
}

fn stretch(node: &mut Node, payload: &[u8]) -> Stretch<Region> {
    let region = node.memory.add(payload.len());
    node.memory.fill(region, 0, payload);
    Stretch {
        region,
        offset: 0,
        length: payload.len() as u32,
    }
}

/// Compares the unit with the packet's headers.
fn check_request(packet: &Packet<'_>, request: &Request<Region>) {
    let (bth, info) = (packet.bth(), packet.info());
    assert_eq!(
        (request.psn, request.ack_request),
        (bth.psn, bth.ack_request)
    );
    assert_eq!(request.solicited, bth.solicited);
    assert_eq!(request.first, info.position.starts());
    assert_eq!(request.last, info.position.ends());
    assert_eq!(request.route.sgid, packet.sgid());
    match (packet.extension(), request.op) {
        (Extension::Remote(reth), RequestOp::Read { remote, length }) => {
            assert_eq!((remote.addr, remote.rkey), (reth.address, reth.rkey));
            assert_eq!(request.packets, length.div_ceil(256).max(1));
        }
        (
            Extension::Remote(reth) | Extension::RemoteImmediate(reth, _),
            RequestOp::Write { target },
        ) => {
            let (remote, length) = target.unwrap();
            assert_eq!((remote.addr, length), (reth.address, reth.length));
        }
        (Extension::Atomic(eth), RequestOp::FetchAdd { remote, add }) => {
            assert_eq!((remote.addr, add), (eth.address, eth.swap_or_add));
        }
        (Extension::Atomic(eth), RequestOp::CompareSwap { compare, swap, .. }) => {
            assert_eq!((compare, swap), (eth.compare, eth.swap_or_add));
        }
        (Extension::Invalidate(ieth), RequestOp::Send) => {
            assert_eq!(request.tail, Some(RequestTail::Invalidate(ieth.rkey)));
        }
        (
            Extension::Datagram(deth) | Extension::DatagramImmediate(deth, _),
            RequestOp::Datagram { qkey },
        ) => assert_eq!((deth.qkey, deth.source), (qkey, request.source)),
        (Extension::Nothing | Extension::Immediate(_), RequestOp::Send) => {}
        (Extension::Nothing | Extension::Immediate(_), RequestOp::Write { target: None }) => {}
        (extension, op) => panic!("{extension:?} became {op:?}"),
    }
}

fn check_response(packet: &Packet<'_>, response: &Response<Region>) {
    assert_eq!(response.psn, packet.bth().psn);
    match (packet.extension(), &response.body) {
        (_, ResponseBody::Read(_)) => {
            assert_eq!(packet.info().operation, Operation::ReadResponse);
        }
        (Extension::AtomicAck(aeth, word), ResponseBody::Atomic(old)) => {
            assert_eq!((aeth.msn.get(), word.original), (response.msn, *old));
        }
        (Extension::Ack(aeth), body) => {
            assert_eq!(aeth.msn.get(), response.msn);
            let said = match (aeth.syndrome, body) {
                (Syndrome::Ack(_), ResponseBody::Ack) => true,
                (Syndrome::ReceiverNotReady(_), ResponseBody::Nak(Nak::ReceiverNotReady(_))) => {
                    true
                }
                (Syndrome::Nak(code), ResponseBody::Nak(nak)) => matches!(
                    (code.get(), nak),
                    (0, Nak::Sequence)
                        | (1, Nak::InvalidRequest)
                        | (2, Nak::RemoteAccess)
                        | (3, Nak::RemoteOperational)
                ),
                _ => false,
            };
            assert!(said, "{aeth:?} became {body:?}");
        }
        (extension, body) => panic!("{extension:?} became {body:?}"),
    }
}

/// Compares the frame that the engine makes of the unit with the headers and payload of the capture.
fn check_frame(packet: &Packet<'_>, frame: &[u8]) {
    let again = Packet::parse(frame).unwrap();
    assert_eq!(again.bth(), packet.bth());
    assert_eq!(again.extension(), packet.extension());
    assert_eq!(again.payload(), packet.payload());
    assert_eq!((again.sgid(), again.dgid()), (packet.sgid(), packet.dgid()));
}

fn check(frame: &[u8]) {
    let captured = Packet::parse(frame).unwrap();
    let mut pair = node(captured.info().service);
    let node = pair.b();
    let frame = readdressed(&captured, node.name().qpn);
    let packet = Packet::parse(&frame).unwrap();
    let arrival = node.hca.decode(&packet).unwrap();
    assert_eq!(arrival.payload, captured.payload());
    match arrival.content {
        Content::Request(mut request) => {
            check_request(&packet, &request);
            if !arrival.payload.is_empty() {
                let data = [stretch(node, arrival.payload)];
                request.payload = Payload::Memory(data.into_iter().collect());
            }
            check_frame(&packet, &node.request_frame(&request));
        }
        Content::Response(mut response) => {
            check_response(&packet, &response);
            if let ResponseBody::Read(data) = &mut response.body {
                data.push(stretch(node, arrival.payload));
            }
            let position = packet.info().position;
            let reply = Reply::Response {
                response,
                packets: 1,
                first: position.starts(),
                last: position.ends(),
            };
            check_frame(&packet, &node.reply_frame(&reply));
        }
        Content::Congestion(_) => panic!("rxe sends no CNP"),
    }
}

#[test]
fn packets_of_rxe_are_units_and_packets_again() {
    let mut count = 0;
    for kind in ["rc", "uc", "ud", "nak", "perftest"] {
        for version in ["v4", "v6"] {
            for frame in frames(&format!("{kind}-{version}.pcap")) {
                check(&frame);
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count}");
}
