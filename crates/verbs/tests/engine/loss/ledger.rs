//! Requests of a random mix, and what has to come of each of them.

use proptest::prelude::*;
use vrdma_verbs::object::QpType;
use vrdma_verbs::work::{Imm, SendOp, Sge, Status};

use crate::pair::node::{ALL, Mr};
use crate::pair::{Pair, Setup};

/// One request of a random mix, all over one page of the peer.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Send(u32),
    Write(u32),
    WriteImm(u32),
    Read(u32),
    Add(u64),
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let length = 0..3000u32;
    let op = prop_oneof![
        length.clone().prop_map(Op::Send),
        length.clone().prop_map(Op::Write),
        length.clone().prop_map(Op::WriteImm),
        length.prop_map(Op::Read),
        (0..100u64).prop_map(Op::Add),
    ];
    prop::collection::vec(op, 1..40)
}

/// Places of all requests' data, to compare with the expected ones.
pub(crate) struct Ledger {
    pub(crate) pair: Pair,
    counter: Mr,
    /// Number of the request, and the buffers of both ends, which have to be equal in the end.
    moved: Vec<(u64, Mr, Mr)>,
    receives: Vec<(u64, Status)>,
    sum: u64,
}

impl Ledger {
    pub(crate) fn new(setup: Setup, unit_bytes: u32) -> Self {
        Self::over(Pair::with(QpType::Rc, setup), unit_bytes)
    }

    pub(crate) fn over(mut pair: Pair, unit_bytes: u32) -> Self {
        pair.unit_bytes = unit_bytes;
        let counter = pair.b().register(8, ALL);
        Self {
            pair,
            counter,
            moved: Vec::new(),
            receives: Vec::new(),
            sum: 0,
        }
    }

    pub(crate) fn post(&mut self, id: u64, op: &Op) {
        let data: Vec<u8> = (0..3000).map(|i| (i as u64 * 31 + id * 7) as u8).collect();
        let part = |length: &u32| &data[..*length as usize];
        match op {
            Op::Send(length) => {
                let (from, to) = self.buffers(id, part(length));
                self.receive(
                    id,
                    &[
                        to.part(0, length / 3),
                        to.part(u64::from(length / 3), length - length / 3),
                    ],
                );
                self.pair.a().send(id, SendOp::Send, &[from.sge()]);
            }
            Op::Write(length) => {
                let (from, to) = self.buffers(id, part(length));
                self.pair
                    .a()
                    .send(id, SendOp::Write(to.remote(0)), &[from.sge()]);
            }
            Op::WriteImm(length) => {
                let (from, to) = self.buffers(id, part(length));
                self.receive(id, &[]);
                let op = SendOp::WriteImm(to.remote(0), Imm([1; 4]));
                self.pair.a().send(id, op, &[from.sge()]);
            }
            Op::Read(length) => {
                let to = self.pair.a().register((*length).max(1), ALL);
                let mut held = part(length).to_vec();
                held.resize((*length).max(1) as usize, 0);
                let from = self.pair.b().holding(&held);
                self.pair
                    .a()
                    .send(id, SendOp::Read(from.remote(0)), &[to.part(0, *length)]);
                self.moved.push((id, to, from));
            }
            Op::Add(add) => {
                let old = self.pair.a().register(8, ALL);
                let remote = self.counter.remote(0);
                let op = SendOp::FetchAdd { remote, add: *add };
                self.pair.a().send(id, op, &[old.sge()]);
                self.sum += add;
            }
        }
    }

    fn buffers(&mut self, id: u64, data: &[u8]) -> (Mr, Mr) {
        let mut held = data.to_vec();
        held.resize(data.len().max(1), 0);
        let mut from = self.pair.a().holding(&held);
        from.length = data.len() as u32;
        let to = self.pair.b().register(held.len() as u32, ALL);
        self.moved.push((id, from, to));
        (from, to)
    }

    fn receive(&mut self, id: u64, sges: &[Sge]) {
        self.pair.b().receive(id, sges);
        self.receives.push((id, Status::Success));
    }

    /// Checks that every request has ended once and in order, and that successful ones have the right bytes.
    pub(crate) fn check(&self, count: u64) {
        let [a, b] = &self.pair.nodes;
        let sends = a.sends();
        let good = sends
            .iter()
            .filter(|(_, status)| *status == Status::Success)
            .count();
        assert!(sends.iter().map(|(id, _)| *id).eq(0..count));
        for (at, (_, status)) in sends.iter().enumerate().skip(good) {
            let expected = if at == good {
                Status::RetryExc
            } else {
                Status::WrFlush
            };
            assert_eq!(*status, expected);
        }
        let due = self
            .receives
            .iter()
            .filter(|(id, _)| *id < good as u64)
            .count();
        assert!(b.receives().len() >= due && self.receives.starts_with(&b.receives()));
        for (id, mine, theirs) in self.moved.iter().filter(|(id, ..)| *id < good as u64) {
            assert_eq!(a.bytes(mine), b.bytes(theirs), "{id}");
        }
        if good as u64 == count {
            assert_eq!(b.bytes(&self.counter), self.sum.to_le_bytes());
        }
    }

    pub(crate) fn all_succeeded(&self) -> bool {
        self.pair.nodes[0]
            .sends()
            .iter()
            .all(|(_, status)| *status == Status::Success)
    }
}

pub(crate) fn faults() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..12, 0..200)
}
