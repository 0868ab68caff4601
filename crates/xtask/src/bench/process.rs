//! RDMA between two processes of one host, compared with the kernel's own ways and the basic costs of all of them.
//!
//! ```text
//!   each repetition: perftest on two process adapters, its latencies also where the daemon has a core for
//!                    itself, there with both ends in one thread, UCX over shared memory, floors (crates/memory)
//! ```
//!
//! Repetitions are the outer loop, so that a machine that gets slower does so for all ways.

mod findings;
mod one_thread;
mod pinned;
pub(super) mod table;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;
use vrdma_lab::place::{self, Place};
use vrdma_lab::steps::Steps;

use super::example::built;
use super::{Arguments, Measured};
use crate::demo::{Measure, perftest};
use crate::named::Only;
use crate::programs::Hosts;
use findings::findings;
use one_thread::OneThread;
use pinned::Pinned;

/// Twenty times as long as the slowest takes.
const RUN_LIMIT: Duration = Duration::from_secs(60);

pub(super) const LATENCY: &str = "latency, 2 B";
const TINY: &str = "bandwidth, 64 B";
const TINY_BYTES: f64 = 64.0;
const SHORT: &str = "bandwidth, 4 KiB";
pub(super) const SMALL: &str = "bandwidth, 64 KiB";
pub(super) const LARGE: &str = "bandwidth, 1 MiB";
/// Longer than a core's own cache.
const UNCACHED: &str = "bandwidth, 64 MiB";

const WRITE: &str = "ib_write_lat";
const INITIATOR: &str = "ib_write_lat, --fast-local, memory in a file";
const PINNED: &str = "daemon on a core of its own";
const PINNED_WRITE: &str = "ib_write_lat, daemon on a core of its own";
const PINNED_SEND: &str = "ib_send_lat, daemon on a core of its own";
const ORDINARY: &str = "ib_write_bw";
const SEND: &str = "ib_send_bw";
const IN_FILE: &str = "ib_write_bw, memory in a file";
const RING: &str = "bare shared ring";
const TCP: &str = "TCP loopback";
const COPIES: &str = "process_vm read and write";
const MEMCPY: &str = "memcpy";

/// Cell, name, perftest with its options.
const PERFTEST: &[(&str, &str, &str)] = &[
    (LATENCY, WRITE, "ib_write_lat -n 20000"),
    (LATENCY, "ib_send_lat", "ib_send_lat -n 20000"),
    (LATENCY, "ib_send_lat, events", "ib_send_lat -n 5000 -e"),
    (
        LATENCY,
        INITIATOR,
        "VRDMA_FAST_LOCAL=1 ib_write_lat -n 100000 --mmap=$FILE",
    ),
    (TINY, ORDINARY, "ib_write_bw -s 64 -D 3 -f 1"),
    (TINY, SEND, "ib_send_bw -s 64 -D 3 -f 1"),
    (SHORT, SEND, "ib_send_bw -s 4096 -D 3 -f 1"),
    (SMALL, ORDINARY, "ib_write_bw -s 65536 -D 3 -f 1"),
    (
        SMALL,
        IN_FILE,
        "ib_write_bw -s 65536 -D 3 -f 1 --mmap=$FILE",
    ),
    (LARGE, ORDINARY, "ib_write_bw -s 1048576 -D 3 -f 1"),
    (
        LARGE,
        IN_FILE,
        "ib_write_bw -s 1048576 -D 3 -f 1 --mmap=$FILE",
    ),
    (UNCACHED, ORDINARY, "ib_write_bw -s 67108864 -t 4 -D 3 -f 1"),
];

/// A file in memory for each side, as large as perftest's buffers ever are here.
const WITH_FILE: &str =
    "FILE=$(mktemp /dev/shm/vrdma-XXXXXX); truncate -s 16M $FILE; trap 'rm -f $FILE' EXIT; ";

/// Cell, ucx_perftest's options.
const UCX: &[(&str, &str)] = &[
    (LATENCY, "-t tag_lat -s 2 -n 100000 -w 1000"),
    (TINY, "-t tag_bw -s 64 -n 1000000 -w 1000"),
    (SHORT, "-t tag_bw -s 4096 -n 200000 -w 1000"),
    (SMALL, "-t tag_bw -s 65536 -n 20000 -w 100"),
    (LARGE, "-t tag_bw -s 1048576 -n 2000 -w 100"),
    (UNCACHED, "-t tag_bw -s 67108864 -n 40 -w 4"),
];
const UCX_SERVER: &str = "UCX_TLS=shm,self ucx_perftest";
const UCX_NAME: &str = "UCX over shared memory";

/// The name of the program that measures the basic costs of the other ways.
const FLOORS: &str = "floors";

/// The figures of one run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Told {
    pub(super) cell: String,
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) typical: f64,
    /// For latencies.
    pub(super) p99: Option<f64>,
    pub(super) p999: Option<f64>,
}

#[derive(Deserialize)]
struct Floors {
    results: Vec<Told>,
}

/// Names of all ways; those that the floors print count as one.
pub(super) fn rows() -> Vec<String> {
    let shared = PERFTEST.iter().map(|(_, name, _)| (*name).to_owned());
    let apart = PERFTEST
        .iter()
        .filter(|(cell, name, _)| waits_for_daemon(cell, name));
    let apart = apart.map(|(_, name, _)| with_pinned(name));
    let others = [one_thread::WRITE, one_thread::SEND, UCX_NAME, FLOORS];
    let mut rows: Vec<String> = Vec::new();
    for name in shared.chain(apart).chain(others.map(str::to_owned)) {
        // Bandwidths have one name in two cells.
        if !rows.contains(&name) {
            rows.push(name);
        }
    }
    rows
}

/// The hosts that the ways are measured on; one that no chosen way needs is not set up.
struct Bench<'a> {
    only: &'a Only,
    hosts: Hosts,
    pinned: Option<Pinned>,
    one_thread: OneThread,
    floors: Option<PathBuf>,
}

impl<'a> Bench<'a> {
    fn start(only: &'a Only) -> Result<Self> {
        let cells = PERFTEST
            .iter()
            .filter(|(cell, name, _)| waits_for_daemon(cell, name));
        let mut of_two = cells.map(|(_, name, _)| with_pinned(name));
        let one_thread = OneThread::compile(only)?;
        let pinned = match of_two.any(|name| only.means(&name)) || one_thread.is_meant() {
            true => Pinned::start()?,
            false => None,
        };
        Ok(Self {
            only,
            hosts: Hosts::start()?,
            pinned,
            one_thread,
            floors: only.means(FLOORS).then(|| built("floors")).transpose()?,
        })
    }

    /// Measures each way once.
    fn repeat(&self) -> Result<Vec<Told>> {
        let mut told = Vec::new();
        let meant = PERFTEST.iter().filter(|(_, name, _)| self.only.means(name));
        for &(cell, name, program) in meant {
            let places = self.hosts.processes();
            told.push(perftest(places, cell, name, program).with_context(|| program)?);
        }
        if let Some(pinned) = &self.pinned {
            let cells = PERFTEST
                .iter()
                .filter(|(cell, name, _)| waits_for_daemon(cell, name));
            for &(cell, name, program) in cells {
                let name = with_pinned(name);
                if self.only.means(&name) {
                    let once = perftest(pinned.places(), cell, &name, program);
                    told.push(once.with_context(|| program)?);
                }
            }
            told.extend(self.one_thread.told(pinned)?);
        }
        for &(cell, options) in UCX.iter().filter(|_| self.only.means(UCX_NAME)) {
            told.push(ucx(&self.hosts, cell, options).with_context(|| options)?);
        }
        if let Some(floors) = &self.floors {
            told.extend(floors_told(floors)?);
        }
        Ok(told)
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<Measured> {
    let bench = Bench::start(&arguments.only)?;
    let steps = Steps::default();
    let mut told = Vec::new();
    for repetition in 1..=arguments.repetitions {
        let step = steps.start(&format!("repetition {repetition}"));
        told.extend(bench.repeat()?);
        step.done();
    }
    let lines = table::lines(&told);
    Ok(Measured {
        findings: findings(&lines),
        details: json!({ "lines": lines, "runs": told }),
        table: Some(format!(
            "{}\nMedians of {} repetitions, of two processes on one host.",
            table::render(&lines),
            arguments.repetitions
        )),
    })
}

/// Whether a row measures the wait for the daemon, which is what the figure is about.
fn waits_for_daemon(cell: &str, name: &str) -> bool {
    cell == LATENCY && name != INITIATOR
}

fn with_pinned(name: &str) -> String {
    format!("{name}, {PINNED}")
}

pub(super) fn perftest(
    places: [&dyn Place; 2],
    cell: &str,
    name: &str,
    program: &str,
) -> Result<Told> {
    let server = format!("{WITH_FILE}{program} -x 1 -F");
    let text = once(places, &server, &format!("{server} $A"))?;
    let is_latency = cell == LATENCY;
    let [typical, p99, p999] = match is_latency {
        true => perftest::percentiles(&text)?.map(Some),
        false => [
            Some(perftest::figure(Measure::Bandwidth, &text)?.value),
            None,
            None,
        ],
    };
    Ok(Told {
        cell: cell.to_owned(),
        name: name.to_owned(),
        unit: if is_latency { "us" } else { "MB/s" }.to_owned(),
        typical: typical.context("perftest printed a figure")?,
        p99,
        p999,
    })
}

/// Runs UCX with both sides in one network: it uses shared memory only between neighbours.
fn ucx(hosts: &Hosts, cell: &str, options: &str) -> Result<Told> {
    let [here, _] = hosts.processes();
    let client = format!("{UCX_SERVER} $A {options}");
    let text = once([here, here], UCX_SERVER, &client)?;
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("Final:"));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    // Columns: iterations, three latencies, then bandwidths of the last moment and of the whole run.
    let is_latency = cell == LATENCY;
    let column = if is_latency { 2 } else { 6 };
    let value = words.get(column).and_then(|word| word.parse::<f64>().ok());
    Ok(Told {
        cell: cell.to_owned(),
        name: UCX_NAME.to_owned(),
        unit: if is_latency { "us" } else { "MB/s" }.to_owned(),
        typical: value.with_context(|| format!("no figure in:\n{text}"))?,
        p99: None,
        p999: None,
    })
}

fn once(places: [&dyn Place; 2], server: &str, client: &str) -> Result<String> {
    let client = place::run(places, server, client, RUN_LIMIT)?.client;
    let text = client.stdout_text();
    ensure!(client.status == 0, "status {}:\n{text}", client.status);
    Ok(text)
}

fn floors_told(program: &PathBuf) -> Result<Vec<Told>> {
    let output = Command::new(program)
        .output()
        .context("cannot start floors")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "floors: {words}");
    let floors: Floors = serde_json::from_slice(&output.stdout)?;
    Ok(floors.results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_of_rows_that_there_are() {
        assert_eq!(with_pinned(WRITE), PINNED_WRITE);
        assert!(rows().contains(&PINNED_SEND.to_owned()));
        let mut cells = PERFTEST.iter().map(|(cell, name, _)| [*cell, *name]);
        assert!(cells.any(|cell| cell == [TINY, ORDINARY]));
    }
}
