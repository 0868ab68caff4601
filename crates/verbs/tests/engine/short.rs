//! Messages of one packet leave in one step; on a path that may be full they go step by step. The units and their
//! outcomes are the same.

use proptest::prelude::*;
use vrdma_verbs::object::QpType;
use vrdma_verbs::work::{Imm, SendOp, SendWr, Sge};
use vrdma_wire::{Lkey, Mtu};

use crate::loss::faults;
use crate::pair::node::{ALL, Mr};
use crate::pair::{Fate, Pair, Region, Setup};

/// No wire has this number.
const ELSEWHERE: u32 = 99;

/// Bytes of each end's memory.
const ROOM: u32 = 1000;

/// A request, with the properties that may keep it from being sent in one step.
#[derive(Clone, Debug)]
struct Asked {
    kind: u8,
    lengths: Vec<u32>,
    fence: bool,
    signaled: bool,
    solicited: bool,
    inline: bool,
    foreign_key: bool,
}

fn asked() -> impl Strategy<Value = Asked> {
    let length = prop_oneof![
        Just(0u32),
        1..8u32,
        Just(255),
        Just(256),
        Just(257),
        0..ROOM
    ];
    let lengths = prop::collection::vec(length, 0..3);
    let rare = || prop::bool::weighted(0.1);
    (0..8u8, lengths, any::<[bool; 3]>(), rare(), rare()).prop_map(
        |(kind, lengths, [fence, signaled, solicited], inline, foreign_key)| Asked {
            kind,
            lengths,
            fence,
            signaled,
            solicited,
            inline,
            foreign_key,
        },
    )
}

impl Asked {
    fn request(&self, id: u64, source: &Mr, target: &Mr) -> SendWr<Region> {
        let remote = target.remote(8);
        let op = match self.kind {
            0 | 1 => SendOp::Write(remote),
            2 => SendOp::WriteImm(remote, Imm([1; 4])),
            3 | 4 => SendOp::Send,
            5 => SendOp::SendImm(Imm([2; 4])),
            6 => SendOp::Read(remote),
            _ => SendOp::FetchAdd { remote, add: 1 },
        };
        let has_payload = !matches!(op, SendOp::Read(_) | SendOp::FetchAdd { .. });
        SendWr {
            fence: self.fence,
            signaled: self.signaled,
            solicited: self.solicited,
            sges: self
                .lengths
                .iter()
                .map(|length| self.sge(source, *length))
                .collect(),
            inline: (self.inline && has_payload).then(|| (&b"inline"[..]).into()),
            ..SendWr::new(id, op)
        }
    }

    fn sge(&self, source: &Mr, length: u32) -> Sge {
        let whole = source.part(0, length);
        match self.foreign_key {
            true => Sge {
                lkey: Lkey(whole.lkey.0 ^ 1),
                ..whole
            },
            false => whole,
        }
    }
}

/// One of the two pairs, and the memory that it sends from and to.
struct Side {
    pair: Pair,
    source: Mr,
    target: Mr,
}

impl Side {
    fn new(qp_type: QpType, steps: bool) -> Self {
        let setup = Setup {
            mtu: Mtu::B256,
            retry_count: 7,
            rnr_retry: 7,
            rd_atomic: 2,
            signal_all: false,
            ..Setup::default()
        };
        let mut pair = Pair::with(qp_type, setup);
        pair.full = steps.then_some(ELSEWHERE);
        let source = pair.a().holding(&[7; ROOM as usize]);
        let target = pair.b().register(2 * ROOM, ALL);
        Self {
            pair,
            source,
            target,
        }
    }

    /// Posts requests, each with a receive that it may take, and carries them; returns everything that was under way as
    /// text.
    fn carry(&mut self, requests: &[Asked], faults: Vec<u8>) -> String {
        let mut said = String::new();
        for (id, asked) in (0..).zip(requests) {
            let room = self.target.part(0, 2 * ROOM);
            self.pair.b().receive(id, &[room]);
            self.pair
                .a()
                .post(asked.request(id, &self.source, &self.target));
        }
        let mut faults = faults.into_iter();
        let (saying, heard) = std::sync::mpsc::channel();
        self.pair.fates(move |unit| {
            let _ = saying.send(format!("{unit:?}\n"));
            match faults.next() {
                Some(1) => Fate::Delay,
                Some(2) => Fate::Double,
                Some(3) => Fate::Lose,
                _ => Fate::Arrive,
            }
        });
        self.pair.run_dry();
        said.extend(heard.try_iter());
        let [a, b] = &self.pair.nodes;
        said + &format!(
            "{:?} {:?} {:?} {:?} {:?}",
            a.sent,
            b.received,
            a.hca.counters(),
            b.hca.counters(),
            b.bytes(&self.target)
        )
    }
}

proptest! {
    #[test]
    fn one_step_does_what_all_steps_do(
        requests in prop::collection::vec(asked(), 1..24),
        faults in faults(),
        reliable in prop::bool::weighted(0.8),
    ) {
        let qp_type = if reliable { QpType::Rc } else { QpType::Uc };
        let [mut once, mut steps] = [false, true].map(|steps| Side::new(qp_type, steps));
        // The place of the peer is known after the first message.
        for requests in [&requests[..1], &requests[1..]] {
            prop_assert_eq!(once.carry(requests, faults.clone()), steps.carry(requests, faults.clone()));
        }
    }
}
