//! Stations that always have messages to send.

use std::num::NonZeroU64;
use std::time::Duration;

use vrdma_switch::{Limit, PortId};
use vrdma_verbs::Time;
use vrdma_verbs::object::QpId;
use vrdma_verbs::work::{SendOp, Status};

use super::{Carrier, add, connect, run, station};

/// Requests that are posted at any time.
const DEPTH: u64 = 32;

/// A station that always has messages to send to another one.
pub(crate) struct Greedy {
    pub(crate) port: PortId,
    pub(crate) qp: QpId,
    pub(crate) to: PortId,
    pub(crate) length: u32,
    /// It reads instead of writing.
    pub(crate) reads: bool,
    /// Bytes of completed requests.
    pub(crate) moved: u64,
}

impl Greedy {
    /// Makes one between two new stations.
    pub(crate) fn new(host: &mut Carrier, numbers: [u8; 2], length: u32) -> Self {
        let [port, to] = numbers.map(|number| add(host, number, 0));
        Self::between(host, [port, to], length)
    }

    /// Makes one on a new queue pair.
    pub(crate) fn between(host: &mut Carrier, [port, to]: [PortId; 2], length: u32) -> Self {
        let qp = connect(host, port, to)[0];
        let greedy = Self {
            port,
            qp,
            to,
            length,
            reads: false,
            moved: 0,
        };
        (0..DEPTH).for_each(|_| greedy.post(host));
        greedy
    }

    /// Makes one that reads.
    pub(crate) fn reader(host: &mut Carrier, [port, to]: [PortId; 2], length: u32) -> Self {
        let qp = connect(host, port, to)[0];
        let greedy = Self {
            port,
            qp,
            to,
            length,
            reads: true,
            moved: 0,
        };
        (0..DEPTH).for_each(|_| greedy.post(host));
        greedy
    }

    pub(crate) fn post(&self, host: &mut Carrier) {
        let remote = station(host, self.to).remote();
        let op = match self.reads {
            true => SendOp::Read(remote),
            false => SendOp::Write(remote),
        };
        // The peer's number tells the request from others of the station.
        let id = u64::from(self.to.0);
        station(host, self.port).post(self.qp, id, op, self.length);
    }

    /// Posts as many requests as were completed; returns how many.
    pub(crate) fn go_on(&mut self, host: &mut Carrier) -> usize {
        let id = u64::from(self.to.0);
        let done = station(host, self.port).completed_of(id);
        for status in &done {
            assert_eq!(*status, Status::Success);
            self.moved += u64::from(self.length);
            self.post(host);
        }
        done.len()
    }

    /// Returns the bytes moved in `time`, in which the host does what it can and sleeps until its next deadline.
    pub(crate) fn moved_in(&mut self, host: &mut Carrier, from: Time, time: Duration) -> u64 {
        let [moved] = work(host, [self], from, time);
        moved
    }
}

/// Does so for several; returns the bytes of each.
pub(crate) fn work<const N: usize>(
    host: &mut Carrier,
    mut greedy: [&mut Greedy; N],
    from: Time,
    time: Duration,
) -> [u64; N] {
    let before: Vec<_> = greedy.iter().map(|it| it.moved).collect();
    let mut now = from;
    while now < from + time {
        run(host, now);
        let done = greedy.iter_mut().map(|it| it.go_on(host));
        if done.sum::<usize>() == 0 {
            now = host.next_deadline().unwrap().max(now);
        }
    }
    std::array::from_fn(|at| greedy[at].moved - before[at])
}

/// Sets a limit of a station; 0 is none.
pub(crate) fn limit(host: &mut Carrier, port: PortId, limit: Limit, rate: u64) {
    let policy = &station(host, port).policy;
    policy.set_rate(limit, NonZeroU64::new(rate));
}

/// Checks that this many bytes are what a rate allows in a second, within 5 %.
pub(crate) fn assert_near(bytes: u64, bits: u64) {
    let due = bits / 8;
    assert!(bytes.abs_diff(due) < due / 20, "{bytes} bytes, {due} due");
}
