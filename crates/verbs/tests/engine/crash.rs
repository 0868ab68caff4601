//! A process ends at any moment, and another one goes on with the last records: nothing that was shown is done again,
//! nothing is lost, and the order stays.
//!
//! Either both ends are in the process that ends, as on one host, or only one of them, with a wire between the two;
//! nothing leaves over the wire before it is recorded.

use proptest::prelude::*;
use vrdma_verbs::object::{Owner, QpType};
use vrdma_verbs::saved::{Piece, Pieces, QpPiece};
use vrdma_verbs::work::{RecvWr, SendOp, SendWr, Status};
use vrdma_verbs::{Hca, Pace};
use vrdma_wire::Mtu;

use crate::pair::node::{ALL, Mr, send_wr};
use crate::pair::{Node, Pair, Region, Setup};

/// Bytes of a message: several units.
const LENGTH: u32 = 1500;

const MESSAGES: u64 = 24;

/// Entries that one end's owner has in its rings.
#[derive(Default)]
struct Rings {
    sends: Vec<SendWr<Region>>,
    receives: Vec<RecvWr>,
    /// Number of requests that the engine has taken.
    posted: usize,
    staged: usize,
}

/// Records of one end.
#[derive(Clone, Default)]
struct Recorded {
    progress: Vec<u8>,
    sent: usize,
    received: usize,
}

/// An event before a step.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Nothing.
    Go,
    /// Both ends are recorded, as by one process.
    Record,
    /// The process of both ends crashes.
    CrashBoth,
    /// The process of one end crashes.
    Crash(usize),
    /// Everything under way between the ends is lost.
    Lose,
}

struct World {
    pair: Pair,
    rings: [Rings; 2],
    recorded: [Recorded; 2],
}

impl World {
    fn new(pace: Pace) -> Self {
        let setup = Setup {
            mtu: Mtu::B256,
            retry_count: 7,
            rnr_retry: 7,
            ..Setup::default()
        };
        let mut pair = Pair::with(QpType::Rc, setup);
        (pair.pace, pair.unit_bytes) = (pace, 512);
        let mut world = Self {
            pair,
            rings: Default::default(),
            recorded: Default::default(),
        };
        world.record(0);
        world.record(1);
        world
    }

    fn record(&mut self, end: usize) {
        let node = &mut self.pair.nodes[end];
        node.drain_outputs();
        let recorded = &mut self.recorded[end];
        recorded.progress.clear();
        assert!(node.hca.save_progress(node.qp, &mut recorded.progress));
        (recorded.sent, recorded.received) = (node.sent.len(), node.received.len());
    }

    fn record_both(&mut self) {
        self.record(0);
        self.record(1);
    }

    fn feed(&mut self, end: usize) {
        let (node, rings) = (&mut self.pair.nodes[end], &mut self.rings[end]);
        while node.hca.send_room(node.qp) > 0 && rings.posted < rings.sends.len() {
            node.post(rings.sends[rings.posted].clone());
            rings.posted += 1;
        }
        while rings.staged < rings.receives.len() {
            let receive = rings.receives[rings.staged].clone();
            node.hca.post_recv(node.qp, receive).unwrap();
            rings.staged += 1;
        }
    }

    /// Ends the process of one end, and lets the next one go on.
    fn crash(&mut self, end: usize) {
        let Recorded {
            progress,
            sent,
            received,
        } = self.recorded[end].clone();
        let (node, rings) = (&mut self.pair.nodes[end], &mut self.rings[end]);
        node.sent.truncate(sent);
        node.received.truncate(received);
        (rings.posted, rings.staged) = (sent, received);
        let under_way = rings.receives.get(received).cloned();
        node.hca = reborn(node, progress, under_way.clone());
        if node.hca.receive_under_way(node.qp).is_some() {
            rings.staged += 1;
        }
        self.feed(end);
    }

    /// Moves everything until nothing moves; `next` gives the event before each step.
    fn run(&mut self, mut next: impl FnMut() -> Next) {
        for _ in 0..20_000 {
            self.feed(0);
            self.feed(1);
            match next() {
                Next::Go => {}
                Next::Record => self.record_both(),
                Next::CrashBoth => {
                    self.pair.drop_units();
                    self.crash(0);
                    self.crash(1);
                }
                Next::Crash(end) => self.crash(end),
                Next::Lose => self.pair.drop_units(),
            }
            let moved = self.pair.step();
            if self.pair.pace == Pace::Wire {
                self.record_both();
            }
            if moved {
                continue;
            }
            self.record_both();
            let Some(next) = self.pair.next_deadline() else {
                return;
            };
            self.pair.now = next.max(self.pair.now);
            self.pair.expire();
        }
        panic!("it does not come to an end");
    }
}

fn reborn(node: &Node, progress: Vec<u8>, receive: Option<RecvWr>) -> Hca<Region> {
    let name = |region: &Region| region.to_le_bytes().to_vec();
    let piece = |piece| node.hca.save_piece(piece, name).unwrap();
    let mrs = (0..64).filter_map(|slot| node.hca.save_piece(Piece::Mr(slot), name));
    let pieces = Pieces {
        frame: node.hca.save_frame(),
        pds: vec![piece(Piece::Pd(node.pd))],
        mrs: mrs.collect(),
        cqs: [node.send_cq, node.recv_cq]
            .map(|cq| piece(Piece::Cq(cq)))
            .into(),
        srqs: Vec::new(),
        qps: vec![QpPiece {
            record: piece(Piece::Qp(node.qp)),
            progress,
            receive,
        }],
        seed: 77,
    };
    Hca::assemble(pieces, |name| {
        name.try_into().ok().map(Region::from_le_bytes)
    })
    .unwrap()
}

/// Returns the content of one message.
fn content(number: u64) -> Vec<u8> {
    (0..u64::from(LENGTH))
        .map(|at| (number.wrapping_mul(31) + at) as u8)
        .collect()
}

struct Buffers {
    sources: Vec<Mr>,
    landing: Vec<Mr>,
    word: Mr,
    results: Vec<Mr>,
}

/// Gives end 0 its messages; message `n` is a SEND, a WRITE, a READ, or an atomic.
fn load(world: &mut World) -> Buffers {
    let [a, b] = &mut world.pair.nodes;
    let sources: Vec<_> = (0..2).map(|n| a.holding(&content(n))).collect();
    let landing: Vec<_> = (0..4).map(|_| b.register(LENGTH, ALL)).collect();
    let word = b.register(8, ALL);
    let results: Vec<_> = (0..8).map(|_| a.register(LENGTH, ALL)).collect();
    for number in 0..MESSAGES {
        let source = &sources[number as usize % 2];
        let remote = landing[number as usize % 2].remote(0);
        let wr = match number % 4 {
            0 => send_wr(number, SendOp::Send, &[source.sge()]),
            1 => send_wr(number, SendOp::Write(remote), &[source.sge()]),
            2 => {
                let into = &results[number as usize % 4];
                send_wr(number, SendOp::Read(remote), &[into.sge()])
            }
            _ => {
                let remote = word.remote(0);
                let into = results[4 + number as usize % 4].part(0, 8);
                send_wr(number, SendOp::FetchAdd { remote, add: 1 }, &[into])
            }
        };
        world.rings[0].sends.push(wr);
    }
    for number in 0..MESSAGES / 4 {
        let into = landing[2 + number as usize % 2].sge();
        world.rings[1].receives.push(RecvWr {
            id: number,
            sges: Ok([into].as_slice().into()),
        });
    }
    Buffers {
        sources,
        landing,
        word,
        results,
    }
}

fn check(world: &World, buffers: &Buffers, atomics_are_exact: bool) {
    let [a, b] = &world.pair.nodes;
    let sends: Vec<_> = a
        .sent
        .iter()
        .flatten()
        .map(|it| (it.wr_id, it.status))
        .collect();
    let all: Vec<_> = (0..MESSAGES).map(|n| (n, Status::Success)).collect();
    assert_eq!(sends, all);
    let receives: Vec<_> = b.received.iter().map(|it| (it.wr_id, it.status)).collect();
    let all: Vec<_> = (0..MESSAGES / 4).map(|n| (n, Status::Success)).collect();
    assert_eq!(receives, all);
    assert_eq!(b.bytes(&buffers.landing[2]), content(0));
    assert_eq!(b.bytes(&buffers.landing[1]), content(1));
    assert_eq!(a.bytes(&buffers.results[2]), b.bytes(&buffers.landing[0]));
    assert_eq!(buffers.sources.len(), 2);
    let counted = u64::from_le_bytes(b.bytes(&buffers.word).try_into().unwrap());
    if atomics_are_exact {
        assert_eq!(counted, MESSAGES / 4);
    }
}

fn on_one_host() -> impl Strategy<Value = Next> {
    prop_oneof![
        6 => Just(Next::Go),
        3 => Just(Next::Record),
        1 => Just(Next::CrashBoth),
    ]
}

fn behind_a_wire() -> impl Strategy<Value = Next> {
    prop_oneof![
        40 => Just(Next::Go),
        2 => (0usize..2).prop_map(Next::Crash),
        1 => Just(Next::Lose),
    ]
}

fn run(pace: Pace, plan: Vec<Next>) {
    let mut world = World::new(pace);
    let buffers = load(&mut world);
    let mut plan = plan.into_iter();
    world.run(|| plan.next().unwrap_or(Next::Go));
    check(&world, &buffers, pace == Pace::Wire);
}

proptest! {
    #[test]
    fn nothing_is_lost_or_doubled_on_one_host(plan in prop::collection::vec(on_one_host(), 0..400)) {
        run(Pace::Local, plan);
    }

    #[test]
    fn nothing_is_lost_or_doubled_behind_a_wire(plan in prop::collection::vec(behind_a_wire(), 0..800)) {
        run(Pace::Wire, plan);
    }
}

/// The peer has executed all of a message, and answers repeated units with its newest PSN. The next requester has not
/// reached that PSN, since the message is longer than what it sends without an answer.
#[test]
fn an_answer_to_what_was_sent_before_the_crash_counts() {
    const LONG: u32 = 100 * 256;
    let mut world = World::new(Pace::Wire);
    let [a, b] = &mut world.pair.nodes;
    let bytes: Vec<u8> = (0..LONG).map(|at| (at / 7) as u8).collect();
    let (data, to) = (a.holding(&bytes), b.register(LONG, ALL));
    let write = send_wr(1, SendOp::Write(to.remote(0)), &[data.sge()]);
    world.rings[0].sends = vec![write];
    world.feed(0);
    while world.pair.nodes[1].bytes(&to) != bytes {
        assert!(world.pair.step());
    }
    world.pair.drop_units();
    world.crash(0);
    world.run(|| Next::Go);
    assert_eq!(world.pair.nodes[0].sends(), [(1, Status::Success)]);
}

/// A bind of a window is not done again, though an older request is.
#[test]
fn a_window_is_bound_once() {
    let mut world = World::new(Pace::Local);
    let [a, b] = &mut world.pair.nodes;
    let to = b.register(8, ALL);
    let (data, region) = (a.holding(b"contents"), a.register(64, ALL));
    let window = a
        .hca
        .alloc_mw(a.pd, vrdma_verbs::object::WindowKind::Two)
        .unwrap();
    let bind = vrdma_verbs::work::BindWindow {
        window: window.rkey,
        region: region.keys.lkey,
        start: region.start,
        length: 8,
        access: vrdma_verbs::attr::Access::REMOTE_READ,
        zero_based: false,
    };
    let write = send_wr(1, SendOp::Write(to.remote(0)), &[data.sge()]);
    let bind = send_wr(2, SendOp::BindWindow(bind), &[]);
    world.rings[0].sends = vec![write, bind];
    world.feed(0);
    // The WRITE is on its way, and the window is bound.
    assert_eq!(world.pair.transmit(0).len(), 1);
    world.record(0);
    let mut once = Some(Next::CrashBoth);
    world.run(|| once.take().unwrap_or(Next::Go));
    let [a, _] = &world.pair.nodes;
    assert_eq!(a.sends(), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(a.hca.owner_of_mw(window.id), Some(Owner::KERNEL));
}
