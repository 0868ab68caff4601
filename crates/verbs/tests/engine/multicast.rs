//! Multicast on one host: which queue pairs get a datagram, how often, and which may be in a group.

use std::net::Ipv4Addr;

use vrdma_verbs::memory::Source;
use vrdma_verbs::object::{Owner, QpId, QpSpec, QpType};
use vrdma_verbs::unit::Request;
use vrdma_verbs::work::{RecvWr, SendOp, Status};
use vrdma_verbs::{ATTACHMENTS_MAX, Error, GROUP_QPS_MAX, Pace};
use vrdma_wire::{Gid, Qkey, Qpn};

use crate::pair::node::{ALL, Name, QKEY, datagram, limits, send_wr};
use crate::pair::{Node, Pair, Region, Setup};
use crate::saved::move_house;

fn group(last: u8) -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(239, 1, 2, last))
}

/// Makes a node with three datagram queue pairs in RTS.
fn node(setup: &Setup) -> (Node, [QpId; 3]) {
    let mut node = Node::new(1, QpType::Ud, setup);
    let qps = [node.qp, node.another(), node.another()];
    for qp in qps {
        let name = node.name();
        node.connect_qp(qp, name, setup, vrdma_verbs::attr::QpState::Rts);
    }
    (node, qps)
}

fn receive(node: &mut Node, qp: QpId, id: u64) -> crate::pair::node::Mr {
    let room = node.register(64, ALL);
    let sges = Ok([room.sge()].as_slice().into());
    node.hca.post_recv(qp, RecvWr { id, sges }).unwrap();
    room
}

/// Returns the datagram that the node's first queue pair sends to a group.
fn sung(node: &mut Node, to: Gid) -> Request<Region> {
    let data = node.holding(b"song");
    let mut wr = send_wr(1, SendOp::Send, &[data.sge()]);
    wr.datagram = Some(datagram(Name {
        gid: to,
        qpn: Qpn::MULTICAST,
    }));
    node.post(wr);
    let (qp, now) = (node.hca.next_ready().unwrap(), Default::default());
    let unit = node.hca.poll_transmit(qp, now, 4096, &mut Pace::Local);
    unit.unwrap()
}

/// Delivers it to all attached queue pairs.
fn hear(node: &mut Node, unit: &Request<Region>) {
    for copy in node.hca.fan_out(unit) {
        let source = Source::Memory(&node.memory);
        assert!(node.hca.deliver(&copy, source, &node.memory).is_none());
    }
    node.drain_outputs();
}

/// Returns the queue pairs that have received something, each with its receive.
fn heard(node: &Node) -> Vec<(QpId, u64)> {
    let received = node.received.iter();
    received
        .inspect(|done| assert_eq!(done.status, Status::Success))
        .map(|done| (done.qp, done.wr_id))
        .collect()
}

#[test]
fn every_attached_queue_pair_hears_it_once() {
    let (mut node, qps) = node(&Setup::default());
    for qp in [qps[1], qps[2], qps[1]] {
        node.hca.attach_mcast(qp, group(1)).unwrap();
    }
    node.hca.attach_mcast(qps[0], group(2)).unwrap();
    let rooms = qps.map(|qp| receive(&mut node, qp, u64::from(qp.0)));
    let unit = sung(&mut node, group(1));
    assert_eq!(unit.destination, Qpn::MULTICAST);
    hear(&mut node, &unit);
    let both = [qps[1], qps[2]].map(|qp| (qp, u64::from(qp.0)));
    assert_eq!(heard(&node), both);
    assert_eq!(node.received[0].grh, Some((node.gid, group(1))));
    assert_eq!(node.bytes(&rooms[1])[40..44], *b"song");
    assert_eq!(node.bytes(&rooms[2])[36..40], [239, 1, 2, 1]);
    assert_eq!(node.sends(), [(1, Status::Success)]);
}

#[test]
fn the_sender_hears_itself_unless_it_is_blocked() {
    for block_own_multicast in [false, true] {
        let (mut node, _) = node(&Setup::default());
        let spec = QpSpec {
            block_own_multicast,
            ..*node.hca.qp_spec(node.qp).unwrap()
        };
        let [old, other] = [node.qp, node.more[0]];
        node.hca.destroy_qp(old).unwrap();
        node.qp = node.hca.create_qp(spec).unwrap();
        let name = node.name();
        node.connect(name, &Setup::default(), vrdma_verbs::attr::QpState::Rts);
        let own = node.qp;
        for qp in [own, other] {
            node.hca.attach_mcast(qp, group(1)).unwrap();
            receive(&mut node, qp, 9);
        }
        let unit = sung(&mut node, group(1));
        hear(&mut node, &unit);
        let who: Vec<QpId> = heard(&node).into_iter().map(|(qp, _)| qp).collect();
        match block_own_multicast {
            false => assert_eq!(who, [own, other]),
            true => assert_eq!(who, [other]),
        }
    }
}

#[test]
fn another_adapter_hears_it_too() {
    let mut pair = Pair::ud();
    let qp = pair.b().qp;
    pair.b().hca.attach_mcast(qp, group(1)).unwrap();
    let room = pair.b().register(64, ALL);
    pair.b().receive(9, &[room.sge()]);
    let unit = sung(pair.a(), group(1));
    assert!(pair.a().hca.fan_out(&unit).is_empty());
    let copies = pair.b().hca.fan_out(&unit);
    assert_eq!(copies.len(), 1);
    assert!(pair.b().hca.wants_receive(&copies[0]).is_none());
    pair.deliver(1, &copies[0]);
    assert_eq!(pair.b().receives(), [(9, Status::Success)]);
    let sender = pair.a().name().qpn;
    assert_eq!(pair.b().received[0].src_qp, sender);
}

#[test]
fn each_copy_is_an_ordinary_datagram() {
    let (mut node, qps) = node(&Setup::default());
    for qp in qps {
        node.hca.attach_mcast(qp, group(1)).unwrap();
    }
    receive(&mut node, qps[1], 7);
    let mut unit = sung(&mut node, group(1));
    let wanting: Vec<bool> = node
        .hca
        .fan_out(&unit)
        .iter()
        .map(|copy| node.hca.wants_receive(copy).is_some())
        .collect();
    assert_eq!(wanting, [true, false, true]);
    hear(&mut node, &unit);
    assert_eq!(heard(&node), [(qps[1], 7)]);
    assert_eq!(node.hca.counters().drops.no_receive, 2);
    let qkey = Qkey(QKEY.0 + 1);
    unit.op = vrdma_verbs::unit::RequestOp::Datagram { qkey };
    hear(&mut node, &unit);
    assert_eq!(node.hca.counters().drops.wrong_qkey, 3);
}

#[test]
fn only_members_hear_what_is_sent_to_their_group() {
    let (mut node, qps) = node(&Setup::default());
    node.hca.attach_mcast(qps[1], group(1)).unwrap();
    let unit = sung(&mut node, group(1));
    let source = Source::Memory(&node.memory);
    assert!(node.hca.deliver(&unit, source, &node.memory).is_none());
    assert_eq!(node.hca.counters().drops.unknown_qp, 1, "not fanned out");
    let mut forged = unit.clone();
    forged.destination = node.hca.qpn(qps[2]).unwrap();
    assert!(node.hca.fan_out(&forged).is_empty());
    node.hca.deliver(&forged, source, &node.memory);
    assert_eq!(node.hca.counters().drops.unbound_gid, 1);
    node.hca.detach_mcast(qps[1], group(1)).unwrap();
    assert!(node.hca.fan_out(&unit).is_empty());
}

#[test]
fn groups_have_one_number_and_nobody_else_has_it() {
    let mut pair = Pair::ud();
    let gid = pair.b().gid;
    let qpn = Qpn::MULTICAST;
    pair.a().send_to(1, Name { gid, qpn }, &[]);
    pair.run();
    assert_eq!(pair.b().hca.counters().drops.unknown_qp, 1);
    let (gid, qpn) = (group(1), pair.b().name().qpn);
    pair.a().send_to(2, Name { gid, qpn }, &[]);
    pair.run();
    let ends = [(1, Status::Success), (2, Status::LocQpOp)];
    assert_eq!(pair.a().sends(), ends);
}

#[test]
fn attaching_is_checked() {
    let (mut node, [qp, ..]) = node(&Setup::default());
    let unicast = node.gid;
    let hca = &mut node.hca;
    let wrong = Err(Error::InvalidAttribute);
    assert_eq!(hca.attach_mcast(qp, unicast), wrong);
    assert_eq!(
        hca.attach_mcast(QpId(99), group(1)),
        Err(Error::InvalidHandle)
    );
    assert_eq!(
        hca.detach_mcast(QpId(99), group(1)),
        Err(Error::InvalidHandle)
    );
    assert_eq!(hca.detach_mcast(qp, group(1)), wrong);
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Gsi] {
        let mut other = Node::new(2, qp_type, &Setup::default());
        let qp = other.qp;
        assert_eq!(other.hca.attach_mcast(qp, group(1)), wrong);
    }
}

#[test]
fn groups_are_bounded() {
    let setup = Setup::default();
    let limits = vrdma_verbs::object::Limits {
        qps: 200,
        ..limits()
    };
    let mut node = Node::with_limits(1, QpType::Ud, &setup, limits);
    for _ in 0..GROUP_QPS_MAX {
        let qp = node.another();
        node.hca.attach_mcast(qp, group(1)).unwrap();
    }
    let qp = node.another();
    let full = Err(Error::Exhausted);
    assert_eq!(node.hca.attach_mcast(qp, group(1)), full);
    let mut gid = Gid([0xff; 16]);
    for number in 0..ATTACHMENTS_MAX - GROUP_QPS_MAX {
        gid.0[14..].copy_from_slice(&(number as u16).to_be_bytes());
        node.hca.attach_mcast(qp, gid).unwrap();
    }
    assert_eq!(node.hca.attach_mcast(qp, group(2)), full);
    assert_eq!(node.hca.attach_mcast(qp, gid), Ok(()), "it is in already");
}

#[test]
fn a_member_is_not_destroyed() {
    let (mut node, [qp, ..]) = node(&Setup::default());
    for last in [1, 2] {
        node.hca.attach_mcast(qp, group(last)).unwrap();
        assert_eq!(node.hca.destroy_qp(qp), Err(Error::InUse));
    }
    let groups: Vec<Gid> = node.hca.multicast_groups().collect();
    assert_eq!(groups, [group(1), group(2)]);
    node.hca.detach_mcast(qp, group(1)).unwrap();
    node.hca.detach_mcast(qp, group(2)).unwrap();
    assert_eq!(node.hca.destroy_qp(qp), Ok(()));
    node.hca.attach_mcast(node.more[0], group(1)).unwrap();
    node.hca.destroy_owner(Owner::KERNEL);
    assert_eq!(node.hca.multicast_groups().count(), 0);
    assert_eq!(node.hca.counts(), Default::default());
}

#[test]
fn members_move_house() {
    let (mut node, qps) = node(&Setup::default());
    for (qp, last) in [(0, 1), (1, 1), (1, 2)] {
        node.hca.attach_mcast(qps[qp], group(last)).unwrap();
    }
    move_house(&mut node);
    let groups: Vec<Gid> = node.hca.multicast_groups().collect();
    assert_eq!(groups, [group(1), group(2)]);
    for (index, qp) in qps.into_iter().enumerate() {
        receive(&mut node, qp, index as u64);
    }
    let unit = sung(&mut node, group(1));
    hear(&mut node, &unit);
    assert_eq!(heard(&node), [(qps[0], 0), (qps[1], 1)]);
}
