//! Measures how many 64-byte operations one thread carries from one device to another, driver included.
//!
//! Question: does a shard reach 5 million one-sided operations a second (Snap's figure, the target of the house plan)?
//! In one operation, the driver writes a 128-byte slot and an index, the device copies and decodes it, the requester
//! makes a unit, the carrier takes it to the peer, the responder checks key, range and rights, 64 bytes are copied, and
//! the acknowledgement completes the request.
//!
//! Limit: about 300 bytes are moved within caches and some 20 cache lines touched for each operation, so about 50 ns,
//! or 20 million a second, if nothing else cost anything.
//!
//! `cargo run --release -p vrdma-driver --example shard_rate`, prints JSON. With a number it carries that many batches
//! of WRITEs, or of READs if `read` follows, and prints nothing: `cargo xtask bench instructions` counts their
//! instructions.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use vrdma_driver::work::SendWork;
use vrdma_driver::{Pair, PairOptions};
use vrdma_verbs::Time;

/// Requests posted with one doorbell: half of the queue.
const BATCH: u64 = 32;
const RUN: Duration = Duration::from_millis(300);
const RUNS: usize = 9;
const BYTES: u32 = 64;

type Ask = fn(u64, u64, u32) -> SendWork;

/// One shard with two devices.
struct Bench {
    pair: Pair,
    start: Instant,
}

impl Bench {
    fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }

    /// Measures operations a second of this thread's CPU time.
    fn measure(&mut self, ask: Ask, signal_all: bool) -> f64 {
        let (addr, rkey) = self.pair.b.remote(0);
        let request = ask(1, addr, rkey).sge(self.pair.a.sge(0, BYTES));
        let quiet = match signal_all {
            true => request.encode(),
            false => request.clone().unsignaled().encode(),
        };
        let entries = [quiet, request.encode()];
        let (begin, cpu) = (Instant::now(), cpu_seconds());
        let mut done = 0;
        while begin.elapsed() < RUN {
            self.batch(&entries);
            done += BATCH;
        }
        done as f64 / (cpu_seconds() - cpu)
    }

    /// Carries batches in which only the last request is signalled.
    fn carry(&mut self, ask: Ask, batches: u64) {
        let (addr, rkey) = self.pair.b.remote(0);
        let request = ask(1, addr, rkey).sge(self.pair.a.sge(0, BYTES));
        let entries = [request.clone().unsignaled().encode(), request.encode()];
        for _ in 0..batches {
            self.batch(&entries);
        }
    }

    fn batch(&mut self, [quiet, last]: &[Vec<u8>; 2]) {
        let now = self.now();
        let (a, send_cq) = (&self.pair.a.qp, &self.pair.a.send_cq);
        let (fabric, guest) = (&mut self.pair.fabric, self.pair.a.guest);
        fabric.clock().reach(now);
        let source = &mut fabric[guest];
        {
            let cpu = source.ram.view();
            let entries = (1..BATCH as usize).map(|_| &quiet[..]);
            let entries: Vec<_> = entries.chain([&last[..]]).collect();
            let posted = a.send.push_all(&cpu, entries.into_iter());
            posted.expect("the last batch is done");
        }
        source.ring_send(a);
        loop {
            fabric.turn();
            let source = &mut fabric[guest];
            let mut last = None;
            while let Some(entry) = source.peek_entry(send_cq) {
                last = Some(entry);
            }
            if let Some(entry) = last {
                assert_eq!(entry.status.get(), 0, "the operations succeed");
                if a.send.outstanding(&source.ram.view()) == 0 {
                    return;
                }
            }
        }
    }
}

/// CPU time of this thread, so that other load on the machine does not count.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() {
    let cases: [(&str, Ask, bool); 3] = [
        ("write_64", SendWork::write, false),
        ("write_64_signalled", SendWork::write, true),
        ("read_64", SendWork::read, false),
    ];
    let mut bench = Bench {
        pair: Pair::with(PairOptions::default()),
        start: Instant::now(),
    };
    bench.pair.fabric.pump();
    let mut arguments = std::env::args().skip(1);
    if let Some(batches) = arguments.next() {
        let batches = batches.parse().expect("a number of batches");
        let ask = match arguments.next().as_deref() {
            Some("read") => SendWork::read,
            _ => SendWork::write,
        };
        return bench.carry(ask, batches);
    }
    let results = cases.map(|(name, ask, signal_all)| {
        let mut rates: Vec<_> = (0..RUNS).map(|_| bench.measure(ask, signal_all)).collect();
        rates.sort_by(f64::total_cmp);
        json!({
            "name": name,
            "unit": "operations/s of a core",
            "median": rates[RUNS / 2].round(),
            "min": rates[0].round(),
            "max": rates[RUNS - 1].round(),
        })
    });
    let report = json!({
        "benchmark": "shard_rate",
        "settings": { "bytes": BYTES, "batch": BATCH, "runs": RUNS, "run_ms": RUN.as_millis() as u64 },
        "target": 5_000_000,
        "results": results,
    });
    println!("{report:#}");
}
