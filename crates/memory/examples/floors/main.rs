//! The least that messages and copies between processes cost on this machine, whatever carries them.
//!
//! Question: how far is RDMA between two processes from the kernel's own methods, and from what both are made of: a
//! cache line that moves between cores, a wake-up, a copy?
//!
//! Limits: spinning threads need a core each; on a busy machine the figures are the scheduler's.
//!
//! `cargo run --release -p vrdma-memory --example floors`, prints JSON: `results`, each with `cell`,
//! `name`, `unit`, `typical` and, for latencies (half a round trip), `p99` and `p999`.

mod bandwidth;
mod latency;

use std::env;
use std::io;

use serde_json::{Value, json};

/// One result.
struct Floor {
    cell: &'static str,
    name: &'static str,
    unit: &'static str,
    typical: f64,
    /// The 99th and 99.9th percentile.
    tail: Option<[f64; 2]>,
}

impl Floor {
    fn json(&self) -> Value {
        let [p99, p999] = [0, 1].map(|index| self.tail.map(|tail| tail[index]));
        json!({
            "cell": self.cell, "name": self.name, "unit": self.unit,
            "typical": self.typical, "p99": p99, "p999": p999,
        })
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let mut floors = latency::all()?;
            floors.extend(bandwidth::all()?);
            let results: Vec<Value> = floors.iter().map(Floor::json).collect();
            println!("{}", json!({ "results": results }));
            Ok(())
        }
        ["echo-tcp", address] => latency::echo_tcp(address),
        ["echo-unix", path] => latency::echo_unix(path),
        ["drain-tcp", address] => bandwidth::drain_tcp(address),
        ["drain-unix", path] => bandwidth::drain_unix(path),
        ["memory"] => bandwidth::lend_memory(),
        _ => Err(io::Error::other("started by hand it takes no arguments")),
    }
}
