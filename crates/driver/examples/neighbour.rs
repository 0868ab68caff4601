//! Measures the time of a message of one guest while another guest takes all that it can get.
//!
//! Question: does a greedy guest cost its neighbours more than one quantum (100 us) of the shard? In one sample, the
//! driver posts a WRITE of 64 bytes, and the shard takes turns until it is completed. The greedy guest posts again
//! whenever it has room, and sends one command between two turns, as the daemon does with messages that wait at its
//! sockets.
//!
//! Limit: a turn carries 64 KiB for the greedy guest, about 10 us of copying, before the neighbour's request, and again
//! before its completion is looked for.
//!
//! `cargo run --release -p vrdma-driver --example neighbour`, prints JSON.

use std::time::Instant;

use serde_json::{Value, json};
use vrdma_driver::object::{Buffer, Connection, Cq, Mr, Qp, QpShape, rights};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Directory, End, Fabric, Pair, PairOptions};
use vrdma_memory::PAGE;
use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::request::{CreateMr, CreateQp, Handle};
use vrdma_pvrdma::abi::response::{CreatedMr, CreatedQp};
use vrdma_verbs::Time;

const SAMPLES: usize = 4000;
const BYTES: u32 = 64;

/// Bytes of a long WRITE of the greedy guest, and the number of them that it keeps posted.
const LONG: u64 = 64 << 20;
const LONG_POSTED: usize = 15;

/// Queue pairs that send small messages.
const QUEUE_PAIRS: usize = 64;

/// Pages of a long registration: the most that a region may have.
const PAGES: usize = 1 << 18;

/// The greedy guest's activity between two turns.
trait Greedy {
    fn act(&mut self, fabric: &mut Fabric);
}

/// No activity.
struct Idle;

impl Greedy for Idle {
    fn act(&mut self, _: &mut Fabric) {}
}

/// Posts WRITEs on several queue pairs whenever there is room.
struct Writes {
    guest: usize,
    queues: Vec<(Qp, Cq)>,
    entry: Vec<u8>,
    posted: usize,
}

impl Greedy for Writes {
    fn act(&mut self, fabric: &mut Fabric) {
        let guest = &mut fabric[self.guest];
        for (qp, cq) in &self.queues {
            let mut rings = false;
            {
                let cpu = guest.ram.view();
                while (qp.send.outstanding(&cpu) as usize) < self.posted
                    && qp.send.push(&cpu, &self.entry).is_ok()
                {
                    rings = true;
                }
            }
            if rings {
                guest.ring_send(qp);
            }
            while let Some(entry) = guest.peek_entry(cq) {
                assert_eq!(entry.status.get(), 0, "the operations succeed");
            }
        }
    }
}

/// Creates a queue pair, destroys it, creates it again.
struct Churn {
    guest: usize,
    request: CreateQp,
    made: Option<u32>,
}

impl Greedy for Churn {
    fn act(&mut self, fabric: &mut Fabric) {
        let guest = &mut fabric[self.guest];
        self.made = match self.made {
            Some(handle) => {
                let destroyed = guest.tell(Command::DestroyQp, &handle_of(handle));
                destroyed.expect("it has the queue pair");
                None
            }
            None => {
                let created: CreatedQp = guest
                    .ask(Command::CreateQp, &self.request)
                    .expect("the device has room");
                Some(created.qp_handle.get())
            }
        };
    }
}

/// Registers as many pages as a region may have, and deregisters them.
struct Registrations {
    guest: usize,
    request: CreateMr,
    is_under_way: bool,
}

impl Greedy for Registrations {
    fn act(&mut self, fabric: &mut Fabric) {
        let guest = &mut fabric[self.guest];
        if guest.device.is_busy() {
            return;
        }
        if self.is_under_way {
            let created = guest.answer(Command::CreateMr);
            let created: CreatedMr = created.expect("the device has room");
            let destroyed = guest.tell(Command::DestroyMr, &handle_of(created.mr_handle.get()));
            destroyed.expect("it has the region");
        } else {
            guest.begin(Command::CreateMr, &self.request);
        }
        self.is_under_way = !self.is_under_way;
    }
}

fn handle_of(handle: u32) -> Handle {
    Handle {
        handle: handle.into(),
        ..Handle::default()
    }
}

/// Two measured neighbours, and two guests of a greedy tenant.
struct Bench {
    pair: Pair,
    greedy: [End; 2],
    start: Instant,
}

impl Bench {
    fn new() -> Self {
        let mut pair = Pair::with(PairOptions::default());
        let greedy = [(); 2].map(|()| {
            let guest = pair.fabric.add();
            pair.fabric.end(guest, PairOptions::default())
        });
        pair.fabric.pump();
        Self {
            pair,
            greedy,
            start: Instant::now(),
        }
    }

    /// Connects two queue pairs of the greedy guests; returns the one that sends.
    fn connect(&mut self) -> (Qp, Cq) {
        let fabric = &mut self.pair.fabric;
        let ends = [0, 1].map(|end| {
            let End {
                guest, pd, context, ..
            } = self.greedy[end];
            let vm = &mut fabric[guest];
            let cq = vm.create_cq(context, 256).expect("a fresh device has room");
            let qp = vm.create_qp(pd, (&cq, &cq), None, QpShape::RC);
            (guest, qp.expect("a fresh device has room"), cq)
        });
        for (own, other) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
            let gid = fabric[other.0].gid();
            let connection = Connection::to(other.1.qpn, gid);
            let connected = fabric[own.0].connect(&own.1, &connection);
            connected.expect("two fresh queue pairs connect");
        }
        let [(_, qp, cq), _] = ends;
        (qp, cq)
    }

    fn writes(&mut self, queue_pairs: usize, posted: usize, length: u64) -> Box<dyn Greedy> {
        let queues = (0..queue_pairs).map(|_| self.connect()).collect();
        let (_, source) = self.region(0, length);
        let (buffer, target) = self.region(1, length);
        let sge = source.sge(buffer.address, length as u32);
        let (addr, rkey) = target.at(buffer.address);
        Box::new(Writes {
            guest: self.greedy[0].guest,
            queues,
            entry: SendWork::write(1, addr, rkey).sge(sge).encode(),
            posted,
        })
    }

    /// A region of one greedy guest. All regions begin at the same address, and list the same pages again and again.
    fn region(&mut self, end: usize, length: u64) -> (Buffer, Mr) {
        let End { guest, pd, .. } = self.greedy[end];
        let vm = &mut self.pair.fabric[guest];
        let own = vm.buffer(length.min(1 << 20));
        let buffer = Buffer {
            address: 1 << 30,
            length,
            pages: repeated(&own.pages, length.div_ceil(PAGE) as usize),
        };
        let mr = vm.register(pd, &buffer, rights::ALL);
        (buffer, mr.expect("a fresh device has room"))
    }

    fn churn(&mut self) -> Box<dyn Greedy> {
        let End {
            guest, pd, context, ..
        } = self.greedy[0];
        let vm = &mut self.pair.fabric[guest];
        let cq = vm.create_cq(context, 256).expect("a fresh device has room");
        let (request, _) = vm.qp_request(pd, (&cq, &cq), None, QpShape::RC);
        Box::new(Churn {
            guest,
            request,
            made: None,
        })
    }

    fn registrations(&mut self) -> Box<dyn Greedy> {
        let End { guest, pd, .. } = self.greedy[0];
        let vm = &mut self.pair.fabric[guest];
        let own = vm.buffer(1 << 20);
        let directory = Directory::build(&mut vm.ram, repeated(&own.pages, PAGES));
        let request = CreateMr {
            start: PAGE.into(),
            length: (PAGES as u64 * PAGE).into(),
            pdir_dma: directory.address.into(),
            pd_handle: pd.handle.into(),
            access_flags: rights::ALL.into(),
            flags: 0.into(),
            nchunks: directory.count().into(),
        };
        Box::new(Registrations {
            guest,
            request,
            is_under_way: false,
        })
    }

    /// Times of all messages in microseconds, in order.
    fn measure(&mut self, greedy: &mut dyn Greedy) -> Vec<f64> {
        let mut times: Vec<_> = (0..SAMPLES).map(|_| self.sample(greedy)).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    fn sample(&mut self, greedy: &mut dyn Greedy) -> f64 {
        let (addr, rkey) = self.pair.b.remote(0);
        let request = SendWork::write(1, addr, rkey).sge(self.pair.a.sge(0, BYTES));
        let End {
            guest,
            ref qp,
            ref send_cq,
            ..
        } = self.pair.a;
        let fabric = &mut self.pair.fabric;
        let began = Instant::now();
        let posted = fabric[guest].post_send(qp, &request);
        posted.expect("the one before is done");
        loop {
            fabric
                .clock()
                .reach(Time(self.start.elapsed().as_nanos() as u64));
            greedy.act(fabric);
            fabric.turn();
            if let Some(entry) = fabric[guest].peek_entry(send_cq) {
                assert_eq!(entry.status.get(), 0, "the operations succeed");
                return began.elapsed().as_nanos() as f64 / 1e3;
            }
        }
    }
}

fn repeated(pages: &[u64], count: usize) -> Vec<u64> {
    pages.iter().copied().cycle().take(count).collect()
}

/// The time below which `percent` of the samples are.
fn percentile(times: &[f64], percent: usize) -> f64 {
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

fn row(name: &str, times: &[f64], alone: f64, target: Option<f64>) -> Value {
    let worst = percentile(times, 99);
    json!({
        "name": format!("neighbour's 99 % {name}, beyond alone"),
        "unit": "us",
        "median": (worst - alone).max(0.0),
        "target": target,
        "percentiles": {
            "50": percentile(times, 50),
            "99": worst,
            "100": percentile(times, 100),
        },
    })
}

fn main() {
    const QUANTUM: f64 = 100.0;
    let mut bench = Bench::new();
    let times = bench.measure(&mut Idle);
    let alone = percentile(&times, 99);
    let mut results = vec![row("alone", &times, alone, None)];
    type Make = fn(&mut Bench) -> Box<dyn Greedy>;
    let cases: [(&str, Make); 4] = [
        ("beside WRITEs of 64 MiB", |bench| {
            bench.writes(1, LONG_POSTED, LONG)
        }),
        ("beside WRITEs of 64 B on 64 queue pairs", |bench| {
            bench.writes(QUEUE_PAIRS, 64, u64::from(BYTES))
        }),
        ("beside a churn of queue pairs", Bench::churn),
        ("beside registrations of 2^18 pages", Bench::registrations),
    ];
    for (name, make) in cases {
        let mut bench = Bench::new();
        let mut greedy = make(&mut bench);
        let times = bench.measure(&mut *greedy);
        results.push(row(name, &times, alone, Some(QUANTUM)));
    }
    let report = json!({
        "benchmark": "neighbour",
        "settings": { "bytes": BYTES, "samples": SAMPLES },
        "results": results,
    });
    println!("{report:#}");
}
