//! A peer that reports how many messages it has receives for (IBTA 9.7.7.2).

use vrdma_verbs::object::QpType;
use vrdma_verbs::unit::ResponseBody;
use vrdma_verbs::work::{Imm, SendOp, Status};
use vrdma_wire::{
    Aeth, Credits, Extension, MAX_FRAME, Msn, Mtu, Packet, PacketBuilder, Syndrome, Transport,
};

use crate::pair::node::ALL;
use crate::pair::{Pair, Setup};

const FIRST: u32 = 100;

/// Messages of three packets each.
const PACKETS: u32 = 3;

fn pair() -> Pair {
    let setup = Setup {
        mtu: Mtu::B256,
        psn: FIRST,
        rnr_retry: 7,
        ..Setup::default()
    };
    Pair::wired(QpType::Rc, setup)
}

/// Posts messages of the first node, each of which takes a receive.
fn post(pair: &mut Pair, ids: std::ops::Range<u64>) {
    let data = pair.a().holding(&[7; 256 * PACKETS as usize]);
    for id in ids {
        pair.a().send(id, SendOp::Send, &[data.sge()]);
    }
}

/// Returns the PSNs of what the first node sends now, and whether each packet asks for an acknowledgement.
fn sent(pair: &mut Pair) -> Vec<(u32, bool)> {
    let frames = pair.frames_of(0);
    let packets = frames.iter().map(|frame| Packet::parse(frame).unwrap());
    packets
        .map(|packet| (packet.bth().psn.get() - FIRST, packet.bth().ack_request))
        .collect()
}

/// Acknowledges everything up to a PSN: `msn` messages are completed, and there are receives for `messages` more.
fn acknowledge(pair: &mut Pair, psn: u32, msn: u32, messages: Option<u32>) {
    let credits = messages.map_or(Credits::UNLIMITED, Credits::at_most);
    let frame = answer(pair, FIRST + psn, msn, credits);
    let now = pair.now;
    pair.a().receive_frame(&frame, now);
}

/// Makes an acknowledgement of the second node with other contents.
fn answer(pair: &Pair, psn: u32, msn: u32, credits: Credits) -> Vec<u8> {
    let frame = crate::packets::answer(pair, psn, ResponseBody::Ack);
    let packet = Packet::parse(&frame).unwrap();
    let aeth = Aeth {
        syndrome: Syndrome::Ack(credits),
        msn: Msn::new(msn),
    };
    let transport = Transport::new(*packet.bth(), Extension::Ack(aeth)).unwrap();
    let mut buffer = [0; MAX_FRAME];
    let builder = PacketBuilder::new(&packet.path(), &transport, 0, &mut buffer).unwrap();
    builder.finish().to_vec()
}

#[test]
fn without_credits_a_message_goes_packet_by_packet() {
    let mut pair = pair();
    post(&mut pair, 0..1);
    sent(&mut pair);
    acknowledge(&mut pair, 2, 1, Some(0));
    post(&mut pair, 1..4);
    for psn in 3..6 {
        assert_eq!(sent(&mut pair), [(psn, true)]);
        assert_eq!(sent(&mut pair), []);
        acknowledge(&mut pair, psn, 1 + u32::from(psn == 5), Some(0));
    }
    assert_eq!(
        pair.a().sends(),
        [(0, Status::Success), (1, Status::Success)]
    );
    assert_eq!(sent(&mut pair), [(6, true)]);
}

#[test]
fn as_many_messages_go_as_there_are_credits() {
    let mut pair = pair();
    post(&mut pair, 0..1);
    sent(&mut pair);
    acknowledge(&mut pair, 2, 1, Some(2));
    post(&mut pair, 1..6);
    let two: Vec<_> = (3..9).map(|psn| (psn, psn == 8)).collect();
    assert_eq!(sent(&mut pair), two);
    // The first message is done, and one receive was posted: three more messages may follow it.
    acknowledge(&mut pair, 5, 2, Some(3));
    let more: Vec<_> = (9..15).map(|psn| (psn, psn == 14)).collect();
    assert_eq!(sent(&mut pair), more);
    // An overtaken acknowledgement changes nothing.
    acknowledge(&mut pair, 8, 3, Some(2));
    acknowledge(&mut pair, 5, 2, Some(8));
    assert_eq!(sent(&mut pair), []);
    // A receive is posted, and the peer reports it unasked.
    acknowledge(&mut pair, 8, 3, Some(3));
    assert_eq!(sent(&mut pair).len(), 3);
}

#[test]
fn what_takes_no_receive_goes_without_credits() {
    let mut pair = pair();
    post(&mut pair, 0..1);
    sent(&mut pair);
    acknowledge(&mut pair, 2, 1, Some(0));
    let target = pair.b().register(64, ALL);
    for id in 1..4 {
        pair.a().send(id, SendOp::Write(target.remote(0)), &[]);
    }
    pair.a()
        .send(4, SendOp::WriteImm(target.remote(0), Imm([0; 4])), &[]);
    let writes = sent(&mut pair);
    assert_eq!(
        writes.iter().map(|(psn, _)| *psn).collect::<Vec<_>>(),
        [3, 4, 5]
    );
    // No message follows that would ask for the peer's answer instead.
    assert_eq!(writes[2], (5, true));
    acknowledge(&mut pair, 5, 4, Some(0));
    assert_eq!(sent(&mut pair), [(6, true)]);
}

#[test]
fn a_peer_that_stops_counting_sets_no_limit_any_more() {
    let mut pair = pair();
    post(&mut pair, 0..1);
    sent(&mut pair);
    acknowledge(&mut pair, 2, 1, Some(0));
    post(&mut pair, 1..4);
    assert_eq!(sent(&mut pair), [(3, true)]);
    acknowledge(&mut pair, 3, 1, None);
    assert_eq!(sent(&mut pair).len(), 8);
}

#[test]
fn going_back_keeps_the_limit() {
    let mut pair = pair();
    post(&mut pair, 0..1);
    sent(&mut pair);
    acknowledge(&mut pair, 2, 1, Some(1));
    post(&mut pair, 1..4);
    assert_eq!(sent(&mut pair).len(), 3);
    pair.now = pair.next_deadline().unwrap();
    pair.expire();
    assert_eq!(sent(&mut pair), [(3, true)]);
    acknowledge(&mut pair, 3, 1, Some(1));
    assert_eq!(sent(&mut pair), [(4, true), (5, true)]);
}
