//! A receive queue shared by several queue pairs: which queue pair takes which receive, and how one queue pair's end
//! affects the others.

use proptest::prelude::*;
use vrdma_verbs::attr::{AttrMask, QpAttr, QpState};
use vrdma_verbs::object::{QpId, QpType};
use vrdma_verbs::work::{Event, SendOp, Sge, Status};
use vrdma_verbs::{Error, ReceiveQueue};
use vrdma_wire::Mtu;

use crate::pair::node::{ALL, Mr, send_wr};
use crate::pair::{Pair, Setup};

const SETUP: Setup = Setup {
    mtu: Mtu::B256,
    access: ALL,
    timeout: 14,
    retry_count: 3,
    rnr_retry: 7,
    min_rnr_timer: 1,
    rd_atomic: 4,
    psn: 0,
    signal_all: true,
    srq: true,
    traffic_class: 0,
};

/// Two connections between two adapters; each adapter has one receive queue for both of its ends.
struct Twins {
    pair: Pair,
    senders: [QpId; 2],
    receivers: [QpId; 2],
}

impl Twins {
    fn new() -> Self {
        let mut pair = Pair::with(QpType::Rc, SETUP);
        pair.unit_bytes = 256;
        let [sender, receiver] = pair.connect_more(&SETUP);
        Self {
            senders: [pair.a().qp, sender],
            receivers: [pair.b().qp, receiver],
            pair,
        }
    }

    fn send(&mut self, which: usize, id: u64, sges: &[Sge]) {
        let wr = send_wr(id, SendOp::Send, sges);
        let qp = self.senders[which];
        self.pair.a().hca.post_send(qp, wr).unwrap();
    }

    /// Returns the receive completions so far: cookie, index of the connection, status.
    fn receives(&self) -> Vec<(u64, usize, Status)> {
        let which = |qp| self.receivers.iter().position(|known| *known == qp);
        let received = self.pair.nodes[1].received.iter();
        received
            .map(|done| (done.wr_id, which(done.qp).unwrap(), done.status))
            .collect()
    }

    fn end(&mut self, which: usize) {
        let attr = QpAttr {
            state: QpState::Err,
            ..QpAttr::default()
        };
        let qp = self.receivers[which];
        let node = self.pair.b();
        node.hca.modify_qp(qp, &attr, AttrMask::STATE).unwrap();
        node.drain_outputs();
    }
}

#[test]
fn messages_take_receives_in_the_order_in_which_they_begin() {
    let mut twins = Twins::new();
    let rooms: Vec<Mr> = (0..2).map(|_| twins.pair.b().register(600, ALL)).collect();
    for (id, room) in (10..).zip(&rooms) {
        twins.pair.b().receive(id, &[room.sge()]);
    }
    for which in [1, 0] {
        let data = twins.pair.a().holding(&[which as u8 + 1; 600]);
        twins.send(which, which as u64, &[data.sge()]);
    }
    // The two messages travel packet by packet, in turns.
    twins.pair.run();
    let expected = [(10, 1, Status::Success), (11, 0, Status::Success)];
    assert_eq!(twins.receives(), expected);
    assert_eq!(twins.pair.nodes[1].bytes(&rooms[0]), [2; 600]);
    assert_eq!(twins.pair.nodes[1].bytes(&rooms[1]), [1; 600]);
}

#[test]
fn whoever_finds_the_queue_empty_waits_for_it() {
    let mut twins = Twins::new();
    for which in [0, 1] {
        twins.send(which, which as u64, &[]);
    }
    let units = twins.pair.transmit(0);
    let srq = twins.pair.b().srq.unwrap();
    for unit in &units {
        let wanted = twins.pair.b().hca.wants_receive(unit);
        assert_eq!(wanted, Some(ReceiveQueue::Shared(srq)));
        let answer = twins.pair.deliver(1, unit).unwrap();
        twins.pair.respond(0, &answer);
    }
    assert_eq!(twins.pair.b().hca.counters().rnr_naks_sent, 2);
    twins.pair.b().receive(10, &[]);
    twins.pair.advance(std::time::Duration::from_millis(1));
    assert_eq!(twins.receives().len(), 1, "one receive, one message");
    twins.pair.b().receive(11, &[]);
    twins.pair.advance(std::time::Duration::from_millis(1));
    let ids: Vec<u64> = twins.receives().iter().map(|(id, ..)| *id).collect();
    assert_eq!(ids, [10, 11]);
    assert_eq!(twins.pair.a().sends().len(), 2);
}

#[test]
fn one_end_takes_its_own_receive_along_and_leaves_the_rest() {
    let mut twins = Twins::new();
    let room = twins.pair.b().register(600, ALL);
    for id in 10..13 {
        twins.pair.b().receive(id, &[room.sge()]);
    }
    let data = twins.pair.a().holding(&[1; 600]);
    twins.send(0, 1, &[data.sge()]);
    let units = twins.pair.transmit(0);
    twins.pair.deliver(1, &units[0]);
    twins.end(0);
    assert_eq!(twins.receives(), [(10, 0, Status::WrFlush)]);
    let gone = Event::LastWqeReached(twins.receivers[0]);
    assert_eq!(twins.pair.b().events, [gone]);
    twins.send(1, 2, &[]);
    twins.send(1, 3, &[]);
    twins.pair.run();
    let rest = [(11, 1, Status::Success), (12, 1, Status::Success)];
    assert_eq!(twins.receives()[1..], rest);
}

#[test]
fn the_queue_stays_until_its_last_user_goes() {
    let mut twins = Twins::new();
    let srq = twins.pair.b().srq.unwrap();
    let [first, second] = twins.receivers;
    let hca = &mut twins.pair.nodes[1].hca;
    assert_eq!(hca.destroy_srq(srq), Err(Error::InUse));
    hca.destroy_qp(first).unwrap();
    assert_eq!(hca.destroy_srq(srq), Err(Error::InUse));
    hca.destroy_qp(second).unwrap();
    assert_eq!(hca.destroy_srq(srq), Ok(()));
}

#[test]
fn when_the_queue_fails_so_do_all_its_users() {
    let mut twins = Twins::new();
    let node = twins.pair.b();
    let srq = node.srq.unwrap();
    node.hca.fail_srq(srq).unwrap();
    node.drain_outputs();
    let [first, second] = twins.receivers;
    let events = [
        Event::SrqError(srq),
        Event::LastWqeReached(first),
        Event::LastWqeReached(second),
    ];
    assert_eq!(twins.pair.b().events, events);
    for qp in twins.receivers {
        assert_eq!(twins.pair.b().hca.qp_state(qp), Some(QpState::Err));
    }
}

#[test]
fn datagram_queues_share_as_well() {
    let mut pair = Pair::with(QpType::Ud, SETUP);
    let [_, second] = pair.connect_more(&SETUP);
    let room = pair.b().register(64, ALL);
    for id in 10..12 {
        pair.b().receive(id, &[room.sge()]);
    }
    let names = [pair.b().name_of(second), pair.b().name()];
    for (id, name) in (1..).zip(names) {
        pair.a().send_to(id, name, &[]);
    }
    pair.run();
    let first = pair.b().qp;
    let received = pair.b().received.iter();
    let received: Vec<_> = received.map(|done| (done.wr_id, done.qp)).collect();
    assert_eq!(received, [(10, second), (11, first)]);
}

proptest! {
    /// For any order of messages and any number of receives: each receive completes once, and each message arrives
    /// once, whole, and in its connection's order.
    #[test]
    fn receives_are_used_once(
        messages in prop::collection::vec((0usize..2, 1u32..700), 1..20),
        early in 0u64..8,
    ) {
        let mut twins = Twins::new();
        let count = messages.len() as u64;
        let rooms: Vec<Mr> = (0..count).map(|_| twins.pair.b().register(700, ALL)).collect();
        let early = early.min(count);
        let receive = |twins: &mut Twins, id: u64| {
            let room = rooms[id as usize].sge();
            twins.pair.b().receive(id, &[room]);
        };
        (0..early).for_each(|id| receive(&mut twins, id));
        for (id, (which, length)) in (0..).zip(&messages) {
            let data = twins.pair.a().holding(&vec![id as u8; *length as usize]);
            twins.send(*which, id, &[data.sge()]);
        }
        twins.pair.run();
        (early..count).for_each(|id| receive(&mut twins, id));
        twins.pair.run_dry();
        let mut ids: Vec<u64> = twins.receives().iter().map(|(id, ..)| *id).collect();
        ids.sort_unstable();
        prop_assert!(ids.into_iter().eq(0..count));
        for which in [0, 1] {
            let sent = messages.iter().zip(0u8..).filter(|((of, _), _)| *of == which);
            let sent = sent.map(|((_, length), id)| vec![id; *length as usize]);
            let of_which = |done: &&vrdma_verbs::work::Completion| done.qp == twins.receivers[which];
            let received = twins.pair.nodes[1].received.iter().filter(of_which);
            let received = received.map(|done| {
                let bytes = twins.pair.nodes[1].bytes(&rooms[done.wr_id as usize]);
                bytes[..done.byte_len as usize].to_vec()
            });
            prop_assert!(received.eq(sent));
        }
    }
}
