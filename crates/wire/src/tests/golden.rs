//! Packets that Linux rxe sent; see `testdata/README.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use super::capture;
use crate::cm::{CmMad, IpCm, IpPair, Message, PortSpace, RejectReason};
use crate::registry::rebuild;
use crate::{
    Extension, Format, MAD_LEN, MAX_FRAME, OPCODES, Opcode, Packet, Qkey, Qpn, Refusal, Service,
    Syndrome,
};

#[test]
fn every_packet_parses_and_is_built_again_to_the_bit() {
    for captured in capture::all() {
        let packet = Packet::parse(&captured.frame)
            .unwrap_or_else(|refusal| panic!("{}: {refusal}", captured.origin));
        let mut buffer = [0xee; MAX_FRAME];
        assert_eq!(
            rebuild(&packet, &mut buffer),
            captured.frame,
            "{}",
            captured.origin
        );
    }
}

/// IBTA 7.8.1: a CRC detects every burst shorter than itself, so a change of any byte that is not masked.
#[test]
fn a_changed_byte_behind_the_headers_is_found() {
    for captured in capture::all() {
        let packet = Packet::parse(&captured.frame).unwrap();
        let end = captured.frame.len();
        let start = end - 4 - packet.padding().len() - packet.payload().len();
        for at in start..end {
            let mut bent = captured.frame.clone();
            bent[at] ^= 0x10;
            assert_eq!(
                Packet::parse(&bent),
                Err(Refusal::Icrc),
                "{}",
                captured.origin
            );
        }
    }
}

/// The list has the opcodes that the captures do not show, so that a new capture is compared with it.
#[test]
fn the_captures_show_every_opcode_that_rxe_sends() {
    let seen: BTreeSet<Opcode> = capture::all()
        .iter()
        .map(|captured| Packet::parse(&captured.frame).unwrap().bth().opcode)
        .collect();
    let missing: Vec<_> = OPCODES
        .iter()
        .filter(|info| !seen.contains(&info.opcode))
        .map(|info| info.name)
        .collect();
    assert_eq!(missing, ["CNP"], "rxe sends no CNP");
}

#[test]
fn the_captures_show_every_refusal() {
    let mut seen = BTreeMap::new();
    for captured in capture::all() {
        let packet = Packet::parse(&captured.frame).unwrap();
        if let Extension::Ack(aeth) | Extension::AtomicAck(aeth, _) = packet.extension() {
            seen.insert(aeth.syndrome.to_byte(), aeth.syndrome);
        }
    }
    let bytes: Vec<u8> = seen.keys().copied().collect();
    assert_eq!(bytes, [0x1f, 0x27, 0x60, 0x61, 0x62, 0x63]);
    assert!(
        !seen
            .values()
            .any(|syndrome| matches!(syndrome, Syndrome::Reserved(_)))
    );
}

fn is_cm(packet: &Packet<'_>) -> bool {
    let datagram = packet.info().service == Service::Ud;
    datagram && packet.bth().destination == Qpn::GSI
}

fn cm_messages() -> Vec<(std::string::String, CmMad)> {
    let captures = capture::all();
    let packets = captures.iter().map(|captured| {
        let packet = Packet::parse(&captured.frame).unwrap();
        (&captured.origin, packet)
    });
    packets
        .filter(|(_, packet)| is_cm(packet))
        .map(|(origin, packet)| {
            let Extension::Datagram(deth) = packet.extension() else {
                panic!("{origin}: a CM datagram has no immediate data");
            };
            assert_eq!((deth.qkey, deth.source), (Qkey::GSI, Qpn::GSI), "{origin}");
            let mad = CmMad::parse(packet.payload()).unwrap();
            let mut again = [0xee; MAD_LEN];
            mad.emit(&mut again);
            assert_eq!(again, packet.payload(), "{origin}");
            (origin.clone(), mad)
        })
        .collect()
}

#[test]
fn cm_messages_survive_to_the_bit() {
    let seen: BTreeSet<u16> = cm_messages()
        .iter()
        .map(|(_, mad)| mad.message.attribute())
        .collect();
    let all_but_mra = [0x10, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
    assert!(seen.into_iter().eq(all_but_mra));
}

#[test]
fn a_request_names_its_caller_twice() {
    let mut requests = 0;
    for (origin, mad) in cm_messages() {
        let Message::Req(req) = mad.message else {
            continue;
        };
        let ip = IpCm::parse(req.private_data.as_bytes()).unwrap();
        let gids = match ip.addresses {
            IpPair::V4(from, to) => [from, to].map(crate::Gid::from_ipv4),
            IpPair::V6(from, to) => [from, to].map(|address| crate::Gid(address.octets())),
        };
        assert_eq!(
            gids,
            [req.primary.local_gid, req.primary.remote_gid],
            "{origin}"
        );
        assert_eq!(req.alternate, None);
        let (space, port) = req.service.to_port().unwrap();
        assert_eq!(space, PortSpace::Tcp);
        assert!([7174, 4444].contains(&port), "{origin}: port {port}");
        requests += 1;
    }
    assert_eq!(requests, 5);
}

#[test]
fn nobody_listening_is_an_invalid_service() {
    let rejections = cm_messages()
        .into_iter()
        .filter_map(|(_, mad)| match mad.message {
            Message::Rej(rej) => Some(rej.reason),
            _ => None,
        });
    assert!(rejections.eq([RejectReason::INVALID_SERVICE; 2]));
}
