//! Datagrams: keys, the header area, and the limited effects of bad ones.

use std::net::Ipv4Addr;

use vrdma_verbs::attr::{Access, QpState};
use vrdma_verbs::object::QpType;
use vrdma_verbs::unit::RequestOp;
use vrdma_verbs::work::{Imm, SendOp, Sge, Status, Tail, WcOp};
use vrdma_verbs::{Source, Time};
use vrdma_wire::{
    Addresses, Bth, Deth, Extension, Gid, Lkey, MAX_FRAME, Mac, Mtu, Opcode, PacketBuilder, Path,
    Pkey, Psn, Qkey, Qpn, TrafficClass, Transport,
};

use crate::pair::node::{ALL, QKEY, datagram, send_wr};
use crate::pair::{Pair, Setup};

/// Node 0 sends `data` to node 1, which has a receive of `room` bytes.
fn exchange(pair: &mut Pair, data: &[u8], room: u32) -> Vec<u8> {
    let from = pair.a().holding(data);
    let to = pair.b().register(room, ALL);
    pair.b().receive(9, &[to.sge()]);
    let name = pair.b().name();
    pair.a().send_to(1, name, &[from.sge()]);
    pair.run();
    pair.nodes[1].bytes(&to)
}

#[test]
fn a_datagram_brings_its_header() {
    let mut pair = Pair::ud();
    let bytes = exchange(&mut pair, b"hello", 64);
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.b().messages(), [(9, WcOp::Recv, 45)]);
    let gids = (pair.a().gid, pair.b().gid);
    let sender = pair.a().name().qpn;
    let received = &pair.b().received[0];
    assert_eq!((received.grh, received.src_qp), (Some(gids), sender));
    assert_eq!(&bytes[..20], [0; 20]);
    assert_eq!(&bytes[40..45], b"hello");
}

#[test]
fn the_ipv4_header_is_complete() {
    let mut pair = Pair::ud();
    let header = exchange(&mut pair, b"hello", 64)[20..40].to_vec();
    assert_eq!(
        header[..10],
        [0x45, 0, 0, 20 + 32 + 8, 0, 0, 0x40, 0, 64, 17]
    );
    assert_eq!(header[12..], [10, 0, 0, 1, 10, 0, 0, 2]);
    let words = header
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
}

#[test]
fn the_ipv6_header_is_complete() {
    let mut pair = Pair::ud();
    let gids = [1u8, 2].map(|i| Gid::link_local(vrdma_wire::Mac([2, 0, 0, 0, 0, i])));
    for (node, gid) in pair.nodes.iter_mut().zip(gids) {
        node.hca.bind_gid(0, gid).unwrap();
        node.gid = gid;
    }
    let bytes = exchange(&mut pair, b"hello", 64);
    assert_eq!(bytes[..8], [0x60, 0, 0, 0, 0, 32 + 8, 17, 64]);
    assert_eq!(bytes[8..24], gids[0].0);
    assert_eq!(bytes[24..40], gids[1].0);
}

#[test]
fn a_wrong_key_is_dropped_silently() {
    let mut pair = Pair::ud();
    let mut wr = send_wr(1, SendOp::Send, &[]);
    let mut to = datagram(pair.b().name());
    to.qkey = Qkey(QKEY.0 + 1);
    wr.datagram = Some(to);
    pair.b().receive(9, &[]);
    pair.a().post(wr);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.b().receives(), []);
    assert_eq!(pair.b().hca.counters().drops.wrong_qkey, 1);
}

/// A datagram for node 1 in a packet with these keys.
fn packet(pair: &mut Pair, pkey: Pkey, qkey: Qkey) -> Vec<u8> {
    let (from, to) = (pair.a().name(), pair.b().name());
    let path = Path {
        destination: Mac([2, 0, 0, 0, 0, 2]),
        source: Mac([2, 0, 0, 0, 0, 1]),
        vlan: None,
        addresses: Addresses::V4 {
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 2),
            identification: 0,
        },
        traffic_class: TrafficClass(0),
        hop_limit: 64,
        source_port: 49152,
    };
    let mut bth = Bth::new(Opcode::UD_SEND_ONLY, to.qpn, Psn::new(7));
    bth.pkey = pkey;
    let source = from.qpn;
    let extension = Extension::Datagram(Deth { qkey, source });
    let transport = Transport::new(bth, extension).unwrap();
    let mut buffer = [0; MAX_FRAME];
    let mut builder = PacketBuilder::new(&path, &transport, 8, &mut buffer).unwrap();
    builder.push(&[7; 8]);
    builder.finish().to_vec()
}

#[test]
fn packets_with_wrong_keys_are_counted_by_reason() {
    let mut pair = Pair::ud();
    let room = pair.b().register(64, ALL);
    pair.b().receive(9, &[room.sge()]);
    let other = Qkey(QKEY.0 + 1);
    for (pkey, qkey) in [
        (Pkey::DEFAULT, other),
        (Pkey::DEFAULT, other),
        (Pkey(0x8001), QKEY),
        // A datagram of a wrong partition counts for that only, whatever its key.
        (Pkey(0x8001), other),
        (Pkey(0), QKEY),
        (Pkey::DEFAULT, QKEY),
    ] {
        let frame = packet(&mut pair, pkey, qkey);
        pair.b().receive_frame(&frame, Time(0));
    }
    assert_eq!(pair.b().messages(), [(9, WcOp::Recv, 48)]);
    let drops = pair.b().hca.counters().drops;
    assert_eq!((drops.wrong_qkey, drops.wrong_pkey), (2, 3));
    assert_eq!(drops.key_violations(), [3, 2]);
}

#[test]
fn bit_31_asks_for_the_own_key() {
    let mut pair = Pair::ud();
    let mut wr = send_wr(1, SendOp::Send, &[]);
    let mut to = datagram(pair.b().name());
    to.qkey = Qkey(0x8000_0000);
    wr.datagram = Some(to);
    pair.a().post(wr);
    let units = pair.transmit(0);
    let RequestOp::Datagram { qkey } = units[0].op else {
        unreachable!()
    };
    assert_eq!(qkey, QKEY);
}

#[test]
fn a_short_receive_fails_alone() {
    let mut pair = Pair::ud();
    let bytes = exchange(&mut pair, b"hello", 44);
    assert_eq!(bytes, [0; 44]);
    assert_eq!(pair.b().receives(), [(9, Status::LocLen)]);
    assert_eq!(pair.b().state(), QpState::Rts);
}

#[test]
fn a_bad_receive_ends_its_owner() {
    let mut pair = Pair::ud();
    let to = pair.b().register(64, Access::REMOTE_READ);
    pair.b().receive(9, &[to.sge()]);
    pair.b().receive(10, &[to.sge()]);
    let name = pair.b().name();
    pair.a().send_to(1, name, &[]);
    pair.run();
    let ends = [(9, Status::LocProt), (10, Status::WrFlush)];
    assert_eq!(pair.b().receives(), ends);
    assert_eq!(pair.b().state(), QpState::Err);
}

#[test]
fn without_a_receive_a_datagram_is_lost() {
    let mut pair = Pair::ud();
    let name = pair.b().name();
    pair.a().send_to(1, name, &[]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.b().hca.counters().drops.no_receive, 1);
}

#[test]
fn a_datagram_fits_one_packet() {
    let mut pair = Pair::ud();
    let longest = Mtu::B4096.bytes();
    let mr = pair.a().register(longest + 1, ALL);
    let name = pair.b().name();
    pair.a().send_to(1, name, &[mr.part(0, longest)]);
    pair.a().send_to(2, name, &[mr.sge()]);
    pair.a().send_to(3, name, &[]);
    pair.run();
    let ends = [
        (1, Status::Success),
        (2, Status::LocLen),
        (3, Status::WrFlush),
    ];
    assert_eq!(pair.a().sends(), ends);
}

#[test]
fn a_local_error_stops_sending_only() {
    let mut pair = Pair::ud();
    let bad = Sge {
        addr: 0,
        length: 1,
        lkey: Lkey(0),
    };
    let name = pair.b().name();
    pair.a().send_to(1, name, &[bad]);
    pair.run();
    assert_eq!(pair.a().state(), QpState::Sqe);
    let here = pair.a().name();
    let room = pair.a().register(40, ALL);
    pair.a().receive(9, &[room.sge()]);
    pair.b().send_to(1, here, &[]);
    pair.run();
    assert_eq!(pair.a().receives(), [(9, Status::Success)]);
    pair.a().send_to(2, name, &[]);
    pair.a().drain_outputs();
    assert_eq!(pair.a().sends()[1..], [(2, Status::WrFlush)]);
    pair.a().modify_state(QpState::Rts);
    pair.a().send_to(3, name, &[]);
    pair.run();
    assert_eq!(pair.a().sends()[2..], [(3, Status::Success)]);
}

#[test]
fn bad_address_vectors_are_refused() {
    let good = |pair: &mut Pair| datagram(pair.b().name());
    let spoil: [fn(&mut vrdma_verbs::work::Datagram); 6] = [
        |to| to.qpn = Qpn::default(),
        |to| to.address.port = 2,
        |to| to.address.sgid_index = 1,
        |to| to.address.sgid_index = 200,
        |to| to.address.dgid = Gid::default(),
        |to| to.address.dgid = Gid::from_ipv4(Ipv4Addr::new(224, 0, 0, 1)),
    ];
    for spoil in spoil {
        let mut pair = Pair::ud();
        let mut to = good(&mut pair);
        spoil(&mut to);
        let mut wr = send_wr(1, SendOp::Send, &[]);
        wr.datagram = Some(to);
        pair.a().post(wr);
        pair.run();
        assert_eq!(pair.a().sends(), [(1, Status::LocQpOp)]);
    }
    let mut pair = Pair::ud();
    pair.a().send(1, SendOp::Send, &[]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::LocQpOp)]);
}

#[test]
fn datagram_queues_take_sends_only() {
    let remote = vrdma_verbs::work::Remote {
        addr: 0,
        rkey: vrdma_wire::Rkey(0),
    };
    let never = [
        SendOp::Write(remote),
        SendOp::Read(remote),
        SendOp::FetchAdd { remote, add: 1 },
        SendOp::SendInvalidate(remote.rkey),
        SendOp::LocalInvalidate(remote.rkey),
    ];
    let imm = SendOp::SendImm(Imm([0; 4]));
    let refused = |qp_type, op: &SendOp<usize>| {
        let mut pair = Pair::new(qp_type);
        let mut wr = send_wr(1, op.clone(), &[]);
        wr.datagram = Some(datagram(pair.b().name()));
        pair.a().post(wr);
        pair.run();
        pair.a().sends() == [(1, Status::LocQpOp)]
    };
    for op in &never {
        assert!(
            refused(QpType::Ud, op) && refused(QpType::Gsi, op),
            "{op:?}"
        );
    }
    assert!(!refused(QpType::Ud, &imm));
    assert!(refused(QpType::Gsi, &imm));
}

#[test]
fn the_gsi_is_qp_1() {
    let mut pair = Pair::new(QpType::Gsi);
    assert_eq!(pair.a().name().qpn, Qpn::GSI);
    exchange(&mut pair, &[7; 256], 296);
    assert_eq!(pair.b().messages(), [(9, WcOp::Recv, 296)]);
    assert_eq!(pair.b().received[0].src_qp, Qpn::GSI);
}

#[test]
fn a_datagram_to_oneself_arrives() {
    let mut pair = Pair::ud();
    let room = pair.a().register(64, ALL);
    let data = pair.a().holding(b"echo");
    pair.a().receive(9, &[room.sge()]);
    let name = pair.a().name();
    let mut wr = send_wr(1, SendOp::SendImm(Imm([4, 3, 2, 1])), &[data.sge()]);
    wr.datagram = Some(datagram(name));
    pair.a().post(wr);
    let units = pair.transmit(0);
    let node = pair.a();
    assert!(node.hca.wants_receive(&units[0]).is_none());
    let response = node
        .hca
        .deliver(&units[0], Source::Memory(&node.memory), &node.memory);
    assert!(response.is_none());
    node.drain_outputs();
    assert_eq!(node.messages(), [(9, WcOp::Recv, 44)]);
    assert_eq!(node.received[0].tail, Some(Tail::Imm(Imm([4, 3, 2, 1]))));
    assert_eq!(node.bytes(&room)[40..44], *b"echo");
}

#[test]
fn datagrams_go_to_bound_gids_only() {
    let mut pair = Pair::ud();
    let name = pair.b().name();
    pair.b().receive(9, &[]);
    pair.b().hca.unbind_gid(0).unwrap();
    pair.a().send_to(1, name, &[]);
    pair.run();
    assert_eq!(pair.b().hca.counters().drops.unbound_gid, 1);
    assert_eq!(pair.b().receives(), []);
}

#[test]
fn a_sender_whose_memory_vanished_costs_no_receive() {
    for srq in [false, true] {
        let setup = Setup {
            srq,
            ..Setup::default()
        };
        let mut pair = Pair::with(QpType::Ud, setup);
        let data = pair.a().holding(b"gone");
        let room = pair.b().register(64, ALL);
        pair.b().receive(9, &[room.sge()]);
        pair.a().memory.remove(data.region);
        let name = pair.b().name();
        pair.a().send_to(1, name, &[data.sge()]);
        pair.run();
        assert_eq!(pair.b().hca.counters().drops.source_fault, 1);
        pair.a().send_to(2, name, &[]);
        pair.run();
        assert_eq!(pair.b().receives(), [(9, Status::Success)]);
    }
}
