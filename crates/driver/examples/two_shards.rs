//! Measures how many 64-byte writes two shards carry on two cores, drivers included: one shard alone, two with pairs
//! inside each shard, and two with pairs that cross.
//!
//! Question: what do two shards gain, and what does crossing cost? Each thread is a shard with two devices. The driver
//! of one writes; the other is written to, by the other shard's device if pairs cross.
//!
//! Limit: disjoint pairs share nothing but the caches, so twice the rate of one. If pairs cross, each unit and each
//! answer is some 350 bytes, about six cache lines, that go from one core's cache to the other's, and the writer takes
//! as many lines back for the next one, at 50 to 100 ns a line: a microsecond an operation if nothing overlapped, twice
//! the rest of the operation.
//!
//! `cargo run --release -p vrdma-driver --example two_shards`, prints JSON. Rates are by wall clock, so both cores must
//! be idle.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer, RingBuffer};
use serde_json::json;
use vrdma_driver::object::{Connection, QpShape};
use vrdma_driver::work::SendWork;
use vrdma_driver::{DeviceMember, End, Fabric, PairOptions};
use vrdma_host::{Among, Lane, ShardId, Shared, Transfer};
use vrdma_verbs::Time;
use vrdma_wire::Gid;

/// Writes of one doorbell.
const BATCH: u64 = 32;
/// Batches that fit the queue: it is kept full, with as many writes as perftest has under way.
const BATCHES: u64 = 4;
const RUN: Duration = Duration::from_millis(300);
const RUNS: usize = 9;
const BYTES: u32 = 64;
const RING: usize = 512;

type Carried = Transfer<DeviceMember>;

/// The end in another shard that a writer writes to.
#[derive(Clone, Copy)]
struct Target {
    qpn: u32,
    gid: Gid,
    address: u64,
    rkey: u32,
}

/// The lanes to and from the other shard.
struct Lanes {
    to: ShardId,
    out: [Producer<Carried>; 2],
    come: [Consumer<Carried>; 2],
}

const LANES: [Lane; 2] = [Lane::Answers, Lane::Units];

impl Lanes {
    fn pair() -> [Self; 2] {
        let rings = || RingBuffer::new(RING);
        let ((a_answers, b_in), (a_units, b_units_in)) = (rings(), rings());
        let ((b_answers, a_in), (b_units, a_units_in)) = (rings(), rings());
        [
            Self {
                to: ShardId(1),
                out: [a_answers, a_units],
                come: [a_in, a_units_in],
            },
            Self {
                to: ShardId(0),
                out: [b_answers, b_units],
                come: [b_in, b_units_in],
            },
        ]
    }

    fn turn(&mut self, fabric: &mut Fabric, now: Time) {
        let host = fabric.carrier();
        for (lane, ring) in LANES.into_iter().zip(&mut self.come) {
            let come = ring.slots();
            let mut chunk = ring.read_chunk(come).expect("it is there");
            let (first, second) = chunk.as_mut_slices();
            let mut taken = 0;
            let come = first.iter_mut().chain(second).inspect(|_| taken += 1);
            host.take_from(self.to, lane, come, now);
            chunk.commit(taken);
        }
        for (lane, ring) in LANES.into_iter().zip(&mut self.out) {
            let room = ring.slots();
            let places = ring.write_chunk_uninit(room).expect("there is room");
            places.fill_from_iter(std::iter::from_fn(|| host.next_transfer(self.to, lane)));
        }
    }
}

/// One thread's shard.
struct Shard {
    fabric: Fabric,
    lanes: Option<Lanes>,
    writer: End,
    target: Target,
    start: Instant,
}

impl Shard {
    fn turn(&mut self) {
        let now = Time(self.start.elapsed().as_nanos() as u64);
        self.fabric.clock().reach(now);
        self.fabric.turn();
        if let Some(lanes) = &mut self.lanes {
            lanes.turn(&mut self.fabric, now);
        }
    }

    /// Posts a batch of writes of which the last one is signalled.
    fn post(&mut self, [quiet, last]: &[Vec<u8>; 2]) {
        let qp = &self.writer.qp;
        let source = &mut self.fabric[self.writer.guest];
        let entries = (1..BATCH).map(|_| &quiet[..]).chain([&last[..]]);
        let entries: Vec<_> = entries.collect();
        let posted = qp.send.push_all(&source.ram.view(), entries.into_iter());
        posted.expect("a batch is done");
        source.ring_send(qp);
    }

    /// Number of batches that have completed since the last call.
    fn completed(&mut self) -> u64 {
        let source = &mut self.fabric[self.writer.guest];
        let mut batches = 0;
        while let Some(entry) = source.peek_entry(&self.writer.send_cq) {
            assert_eq!(entry.status.get(), 0, "the operations succeed");
            batches += 1;
        }
        batches
    }

    /// Measures operations a second by wall clock.
    fn measure(&mut self) -> f64 {
        let request = SendWork::write(1, self.target.address, self.target.rkey);
        let request = request.sge(self.writer.sge(0, BYTES));
        let entries = [request.clone().unsignaled().encode(), request.encode()];
        let begin = Instant::now();
        let [mut posted, mut done] = [0; 2];
        while begin.elapsed() < RUN || posted > done {
            if posted < done + BATCHES && begin.elapsed() < RUN {
                self.post(&entries);
                posted += 1;
            }
            self.turn();
            done += self.completed();
        }
        (done * BATCH) as f64 / begin.elapsed().as_secs_f64()
    }
}

/// The arguments of a thread.
struct Part {
    id: u16,
    among: Among,
    lanes: Option<Lanes>,
    /// Channels that tell the end served here, and the end to write to.
    says: std::sync::mpsc::Sender<Target>,
    hears: std::sync::mpsc::Receiver<Target>,
    start: Instant,
}

fn prepare(part: Part) -> Shard {
    let mut fabric = Fabric::among(part.among, usize::from(part.id) * 2);
    let guests = [fabric.add(), fabric.add()];
    let shape = QpShape {
        send_wr: (BATCH * BATCHES) as u32,
        ..QpShape::RC
    };
    let options = PairOptions {
        shape,
        ..PairOptions::default()
    };
    let [writer, written] = guests.map(|guest| fabric.end(guest, options));
    let (address, rkey) = written.remote(0);
    let of = |fabric: &Fabric, end: &End, (address, rkey)| Target {
        qpn: end.qp.qpn,
        gid: fabric[end.guest].gid(),
        address,
        rkey,
    };
    // First the end that the other thread writes to, then the end that writes.
    part.says
        .send(of(&fabric, &written, (address, rkey)))
        .unwrap();
    let target = part.hears.recv().unwrap();
    part.says.send(of(&fabric, &writer, (0, 0))).unwrap();
    let from = part.hears.recv().unwrap();
    for (end, peer) in [(&writer, target), (&written, from)] {
        let connection = Connection::to(peer.qpn, peer.gid);
        fabric[end.guest]
            .connect(&end.qp, &connection)
            .expect("two fresh QPs connect");
    }
    Shard {
        fabric,
        lanes: part.lanes,
        writer,
        target,
        start: part.start,
    }
}

fn run(part: Part, barrier: &Barrier) -> Vec<f64> {
    let mut shard = prepare(part);
    barrier.wait();
    let rates = (0..RUNS).map(|_| shard.measure()).collect();
    // The other thread may still wait for answers.
    let until = Instant::now() + RUN;
    while Instant::now() < until {
        shard.turn();
    }
    rates
}

/// The rate of all threads together, for each run.
fn rates(threads: u16, crossing: bool) -> Vec<f64> {
    let shared: Arc<Shared> = Arc::default();
    let barrier = Barrier::new(usize::from(threads));
    let start = Instant::now();
    let mut lanes: Vec<_> = match threads {
        1 => vec![None],
        _ => Lanes::pair().map(Some).into(),
    };
    let mut channels: Vec<_> = (0..threads).map(|_| std::sync::mpsc::channel()).collect();
    let mut says: Vec<_> = channels
        .iter()
        .map(|(says, _)| Some(says.clone()))
        .collect();
    if crossing {
        says.reverse();
    }
    let mut each: Vec<Vec<f64>> = Vec::new();
    thread::scope(|scope| {
        let parts = (0..threads).map(|id| Part {
            id,
            among: Among {
                id: ShardId(id),
                shards: threads,
                shared: Arc::clone(&shared),
            },
            lanes: lanes[usize::from(id)].take(),
            says: says[usize::from(id)].take().expect("one for each"),
            hears: channels.remove(0).1,
            start,
        });
        let parts: Vec<_> = parts.collect();
        let threads: Vec<_> = parts
            .into_iter()
            .map(|part| scope.spawn(|| run(part, &barrier)))
            .collect();
        each = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
    });
    (0..RUNS)
        .map(|run| each.iter().map(|rates| rates[run]).sum())
        .collect()
}

fn main() {
    let cases = [
        ("one shard", 1, false),
        ("two shards, disjoint pairs", 2, false),
        ("two shards, crossing pairs", 2, true),
    ];
    let rates = cases.map(|(name, threads, crossing)| {
        let mut rates = rates(threads, crossing);
        rates.sort_by(f64::total_cmp);
        (name, rates)
    });
    let median = |at: usize| rates[at].1[RUNS / 2];
    let rows = rates.iter().map(|(name, rates)| {
        json!({
            "name": name,
            "unit": "operations/s",
            "median": rates[RUNS / 2].round(),
            "min": rates[0].round(),
            "max": rates[RUNS - 1].round(),
        })
    });
    let ratio = |name, at, target: f64| {
        let ratio = median(at) / median(0);
        json!({ "name": name, "unit": "x one shard", "median": ratio, "target": target })
    };
    let ratios = [
        ratio("disjoint pairs", 1, 1.8),
        ratio("crossing pairs", 2, 1.0),
    ];
    let results: Vec<_> = rows.chain(ratios).collect();
    let report = json!({
        "benchmark": "two_shards",
        "settings": { "bytes": BYTES, "batch": BATCH, "runs": RUNS, "run_ms": RUN.as_millis() as u64 },
        "results": results,
    });
    println!("{report:#}");
}
