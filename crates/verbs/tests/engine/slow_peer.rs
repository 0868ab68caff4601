//! A peer that is much slower than the wire, and serves one queue pair as long as that has packets: Linux's rxe, whose
//! work queue takes up to 1024 packets of one queue pair before it turns to the next.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vrdma_verbs::Time;
use vrdma_verbs::object::{QpId, QpType};
use vrdma_verbs::work::{SendOp, Status};
use vrdma_wire::{Packet, Qpn};

use crate::pair::node::{ALL, send_wr};
use crate::pair::{Node, Pair, Setup};

/// Time that an emulated guest takes for a packet, and delay of one way of the wire.
const PACKET: Duration = Duration::from_micros(66);
const DELAY: Duration = Duration::from_micros(100);

/// Packets of one queue pair that are served in a row, as by rxe's tasks.
const IN_A_ROW: u32 = 1024;

const QPS: usize = 8;
const MESSAGES: u64 = 64;
const MESSAGE_BYTES: u32 = 64 * 1024;

/// The second node's packets by queue pair, and the queue pair that has its turn.
struct Slow {
    pair: Pair,
    waiting: Vec<(Qpn, VecDeque<Vec<u8>>)>,
    turn: usize,
    in_a_row: u32,
    busy_until: Time,
    under_way: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    sent: u64,
}

impl Slow {
    fn new(pair: Pair) -> Self {
        Self {
            pair,
            waiting: Vec::new(),
            turn: 0,
            in_a_row: 0,
            busy_until: Time(0),
            under_way: BTreeMap::new(),
            sent: 0,
        }
    }

    fn send(&mut self) {
        for from in [0, 1] {
            for frame in self.pair.frames_of(from) {
                self.sent += 1;
                let key = (self.pair.now + DELAY, self.sent);
                self.under_way.insert(key, (1 - from, frame));
            }
        }
    }

    fn arrive(&mut self) {
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > self.pair.now {
                return;
            }
            let (to, frame) = entry.remove();
            if to == 0 {
                let now = self.pair.now;
                self.pair.a().receive_frame(&frame, now);
                continue;
            }
            let qpn = Packet::parse(&frame).unwrap().bth().destination;
            match self.waiting.iter_mut().find(|(of, _)| *of == qpn) {
                Some((_, queue)) => queue.push_back(frame),
                None => self.waiting.push((qpn, VecDeque::from([frame]))),
            }
        }
    }

    /// Serves one packet, if there is any and its time has come.
    fn serve(&mut self) {
        if self.waiting.is_empty() || self.busy_until > self.pair.now {
            return;
        }
        let goes_on = self.in_a_row < IN_A_ROW && !self.waiting[self.turn].1.is_empty();
        if !goes_on {
            let mut turns =
                (1..=self.waiting.len()).map(|step| (self.turn + step) % self.waiting.len());
            let Some(next) = turns.find(|turn| !self.waiting[*turn].1.is_empty()) else {
                return;
            };
            (self.turn, self.in_a_row) = (next, 0);
        }
        self.in_a_row += 1;
        self.busy_until = self.pair.now + PACKET;
        let frame = self.waiting[self.turn].1.pop_front().unwrap();
        let now = self.pair.now;
        self.pair.b().receive_frame(&frame, now);
    }

    fn is_waiting(&self) -> bool {
        self.waiting.iter().any(|(_, queue)| !queue.is_empty())
    }

    /// Runs until nothing is left to wait for.
    fn run(&mut self) {
        loop {
            self.arrive();
            self.serve();
            self.send();
            let arrival = self.under_way.keys().next().map(|(at, _)| *at);
            let served = self.is_waiting().then_some(self.busy_until);
            let timer = self.pair.next_deadline();
            let next = [arrival, served, timer].into_iter().flatten().min();
            let Some(next) = next else {
                return;
            };
            self.pair.now = next.max(self.pair.now);
            if timer.is_some_and(|at| at <= self.pair.now) {
                self.pair.expire();
            }
            self.pair.nodes.iter_mut().for_each(Node::drain_outputs);
        }
    }
}

#[test]
fn queue_pairs_that_share_a_slow_peer_all_get_on() {
    let setup = Setup {
        timeout: 14,
        retry_count: 7,
        ..Setup::default()
    };
    let mut pair = Pair::wired(QpType::Rc, setup);
    let mut qps: Vec<QpId> = vec![pair.a().qp];
    qps.extend((1..QPS).map(|_| pair.connect_more(&setup)[0]));
    let from = pair.a().register(MESSAGE_BYTES, ALL);
    let to = pair.b().register(MESSAGE_BYTES, ALL);
    for id in 0..MESSAGES {
        for qp in &qps {
            let wr = send_wr(id, SendOp::Write(to.remote(0)), &[from.sge()]);
            pair.a().hca.post_send(*qp, wr).unwrap();
        }
    }
    let mut slow = Slow::new(pair);
    slow.run();
    let node = &slow.pair.nodes[0];
    let sends = node.sends();
    assert_eq!(sends.len(), QPS * MESSAGES as usize);
    assert!(sends.iter().all(|(_, status)| *status == Status::Success));
    let counters = node.hca.counters();
    // Nothing was lost, so repeated packets were in vain.
    assert_eq!(counters.timeouts, 0);
    let packets = QPS as u64 * MESSAGES * u64::from(MESSAGE_BYTES / 1024);
    assert!(counters.retries < packets / 100, "{}", counters.retries);
    // The peer was never idle.
    let least = PACKET * packets as u32;
    assert!(slow.pair.now < Time(0) + least + least / 10);
}
