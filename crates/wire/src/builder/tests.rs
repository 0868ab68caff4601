use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::address::{Gid, Mac};
use crate::ethernet::Vlan;
use crate::ip::TrafficClass;
use crate::ipv6::FlowLabel;
use crate::number::{Psn, Qpn};
use crate::opcode::{OPCODES, Opcode};
use crate::packet::Packet;
use crate::path::Addresses;

fn gid(host: [u8; 8], is_ipv4: bool) -> Gid {
    let [a, b, c, d, ..] = host;
    if is_ipv4 {
        Gid::from_ipv4([10 + a % 100, b, c, d].into())
    } else {
        let mut gid = [0xfd; 16];
        gid[8..].copy_from_slice(&host);
        Gid(gid)
    }
}

prop_compose! {
    fn paths()(
        macs in any::<[[u8; 6]; 2]>(),
        vlan in prop::option::of(any::<u16>().prop_map(Vlan)),
        hosts in any::<[[u8; 8]; 2]>(),
        is_ipv4 in any::<bool>(),
        (label, class, hop_limit, source_port) in any::<(u32, u8, u8, u16)>(),
    ) -> Path {
        let [sgid, dgid] = hosts.map(|host| gid(host, is_ipv4));
        Path {
            destination: Mac(macs[0]),
            source: Mac(macs[1]),
            vlan,
            addresses: Addresses::between(sgid, dgid, FlowLabel::new(label)).unwrap(),
            traffic_class: TrafficClass(class),
            hop_limit,
            source_port,
        }
    }
}

prop_compose! {
    fn transports()(
        info in prop::sample::select(OPCODES),
        headers in any::<[u8; Extension::MAX_LEN]>(),
        (qpn, psn) in any::<(u32, u32)>(),
        (solicited, ack_request, becn) in any::<(bool, bool, bool)>(),
    ) -> Transport {
        let bth = Bth {
            solicited,
            ack_request,
            becn,
            ..Bth::new(info.opcode, Qpn::from_low_bits(qpn), Psn::new(psn))
        };
        Transport::new(bth, Extension::parse(info.carries, &headers).unwrap()).unwrap()
    }
}

fn send_only() -> (Path, Transport) {
    let path = Path {
        destination: Mac([0; 6]),
        source: Mac([0; 6]),
        vlan: None,
        addresses: Addresses::between(gid([1; 8], true), gid([2; 8], true), FlowLabel::default())
            .unwrap(),
        traffic_class: TrafficClass(0),
        hop_limit: 64,
        source_port: 0xc000,
    };
    let bth = Bth::new(Opcode::RC_SEND_ONLY, Qpn::from_low_bits(1), Psn::new(0));
    (path, Transport::new(bth, Extension::Nothing).unwrap())
}

proptest! {
    #[test]
    fn what_is_built_parses_to_its_parts(
        path in paths(),
        transport in transports(),
        payload in prop::collection::vec(any::<u8>(), 0..=MAX_PAYLOAD),
        cuts in any::<[prop::sample::Index; 2]>(),
    ) {
        let payload = if transport.info().payload { payload } else { Vec::new() };
        let mut buffer = [0xee; MAX_FRAME];
        let mut builder =
            PacketBuilder::new(&path, &transport, payload.len(), &mut buffer).unwrap();
        let (front, rest) = payload.split_at(cuts[0].index(payload.len() + 1));
        let (middle, back) = rest.split_at(cuts[1].index(rest.len() + 1));
        builder.push(front);
        let fill = |room: &mut [u8]| -> Result<(), ()> {
            room.copy_from_slice(middle);
            Ok(())
        };
        let mut builder = builder.push_with(middle.len(), fill).unwrap();
        builder.push(back);
        let frame = builder.finish();
        prop_assert_eq!(frame.len(), frame_len(&path, &transport, payload.len()));

        let packet = Packet::parse(frame).unwrap();
        prop_assert_eq!(packet.path(), path);
        prop_assert_eq!(packet.extension(), transport.extension());
        prop_assert_eq!(packet.bth().psn, transport.bth().psn);
        prop_assert_eq!(packet.payload(), payload);
    }
}

#[test]
fn the_longest_packet_fills_the_longest_frame_but_for_its_extension() {
    let (mut path, transport) = send_only();
    path.vlan = Vlan::new(1);
    let [a, b] = [1, 2].map(|host| gid([host; 8], false));
    path.addresses = Addresses::between(a, b, FlowLabel::default()).unwrap();
    let len = frame_len(&path, &transport, MAX_PAYLOAD);
    assert_eq!(len + Extension::MAX_LEN, MAX_FRAME);
}

#[test]
fn what_cannot_be_built_is_refused() {
    let (path, transport) = send_only();
    let mut buffer = [0; 62];
    let error = PacketBuilder::new(&path, &transport, 5, &mut buffer).unwrap_err();
    assert_eq!(error, BuildError::Buffer { need: 66 });
    assert_eq!(buffer, [0; 62]);
    let mut buffer = [0; MAX_FRAME + 4];
    let too_long = PacketBuilder::new(&path, &transport, MAX_PAYLOAD + 1, &mut buffer);
    assert_eq!(too_long.unwrap_err(), BuildError::Payload);
    let cnp = Transport::new(
        crate::Cnp::bth(Qpn::from_low_bits(1)),
        Extension::Cnp(crate::Cnp),
    );
    let with_payload = PacketBuilder::new(&path, &cnp.unwrap(), 1, &mut buffer);
    assert_eq!(with_payload.unwrap_err(), BuildError::Payload);
}

#[test]
fn a_failed_fill_is_the_callers_error() {
    let (path, transport) = send_only();
    let mut buffer = [0; MAX_FRAME];
    let builder = PacketBuilder::new(&path, &transport, 4, &mut buffer).unwrap();
    assert_eq!(builder.push_with(4, |_| Err("gone")).unwrap_err(), "gone");
}

#[test]
fn an_opcode_takes_only_its_headers() {
    let bth = Bth::new(Opcode::RC_ACKNOWLEDGE, Qpn::from_low_bits(1), Psn::new(0));
    assert_eq!(Transport::new(bth, Extension::Nothing), None);
    let unknown = Bth::new(Opcode(0xff), Qpn::from_low_bits(1), Psn::new(0));
    assert_eq!(Transport::new(unknown, Extension::Nothing), None);
}
