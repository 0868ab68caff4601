//! Measures the processor time of a shard with a hundred guests that hold a queue pair and send nothing.
//!
//! Question: does it stay below 2 % of a core? Programs ring by storing into memory, which wakes no thread, so the
//! shard looks at the doorbells of each guest; the longer a guest is silent, the less often. Measured after twenty
//! seconds of silence, when the shard looks every 4 ms.
//!
//! Limit: 250 wake-ups a second of about 10 us with a hundred cache misses each, about 0.5 %.
//!
//! `cargo run --release -p vrdma-driver --example silent_guests`, prints JSON.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use vrdma_driver::{Fabric, PairOptions};
use vrdma_verbs::Time;

const GUESTS: usize = 100;
const RUN: Duration = Duration::from_secs(2);
const RUNS: usize = 5;

/// Silence before the measurement, by the shard's clock only.
const SILENCE: Duration = Duration::from_secs(20);

const PERCENT: f64 = 100.0;

fn guests() -> Fabric {
    let mut fabric = Fabric::new();
    for _ in 0..GUESTS {
        let guest = fabric.add();
        fabric.end(guest, PairOptions::default());
    }
    fabric.pump();
    fabric
}

/// Runs turns and sleeps like the daemon's thread; returns the part of a core that they use, in percent.
fn measure(fabric: &mut Fabric, start: Instant) -> f64 {
    let now = || Time((SILENCE + start.elapsed()).as_nanos() as u64);
    let (began, used) = (Instant::now(), cpu_seconds());
    while began.elapsed() < RUN {
        let time = now();
        fabric.clock().reach(time);
        let shard = fabric.carrier();
        while shard.turn(time) {}
        let next = shard.next_deadline();
        let next = next.expect("doorbells in memory are looked at");
        sleep(Duration::from_nanos(next.0.saturating_sub(now().0)));
    }
    (cpu_seconds() - used) / began.elapsed().as_secs_f64() * PERCENT
}

/// CPU time of this thread.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() {
    let mut fabric = guests();
    let start = Instant::now();
    let mut runs: Vec<_> = (0..RUNS).map(|_| measure(&mut fabric, start)).collect();
    runs.sort_by(f64::total_cmp);
    let report = json!({
        "benchmark": "silent_guests",
        "settings": { "guests": GUESTS, "runs": RUNS, "run_s": RUN.as_secs() },
        "target": 2.0,
        "results": [{
            "name": "processor time beside 100 silent guests",
            "unit": "% of a core",
            "median": runs[RUNS / 2],
            "min": runs[0],
            "max": runs[RUNS - 1],
        }],
    });
    println!("{report:#}");
}
