//! The cost of unused adapters: a daemon with ten thousand in its configuration and one with none, how long each takes
//! until it is ready and how much memory it then has.

use std::fmt::Write;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use vrdma_lab::steps::Steps;

use super::finding::{Finding, Target};
use super::{Arguments, Measured};
use crate::lab::daemon;

const ADAPTERS: u32 = 10_000;

/// Ten times as long as a slow machine takes.
const START_LIMIT: Duration = Duration::from_secs(60);

const PAGE_BYTES: u64 = 4096;

/// The start of a daemon with a number of adapters, or the difference between two starts.
#[derive(Clone, Copy)]
struct Start {
    seconds: f64,
    bytes: f64,
}

/// A running daemon, ended when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The daemon has nothing to save, and a failure means that it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<Measured> {
    let steps = Steps::default();
    let program = daemon(true)?;
    let mut starts = Vec::new();
    for _ in 0..arguments.repetitions {
        let step = steps.start(&format!("start with 0 and with {ADAPTERS} adapters"));
        let [none, many] = [start(&program, 0)?, start(&program, ADAPTERS)?];
        starts.push(Start {
            seconds: many.seconds - none.seconds,
            bytes: (many.bytes - none.bytes) / f64::from(ADAPTERS),
        });
        step.done();
    }
    let rates = starts
        .iter()
        .map(|start| f64::from(ADAPTERS) / start.seconds);
    let (rates, bytes): (Vec<_>, Vec<_>) =
        rates.zip(starts.iter().map(|start| start.bytes)).unzip();
    let rate = Finding::new(
        "adapters added by configuration".to_owned(),
        median(&rates),
        "a second",
        Some(Target::AtLeast(1000.0)),
    );
    let size = Finding::new(
        "resident memory of an unused adapter".to_owned(),
        median(&bytes),
        "bytes",
        Some(Target::Below(4096.0)),
    );
    Ok(Measured {
        findings: vec![rate, size],
        details: json!({ "adapters": ADAPTERS, "per_second": rates, "bytes_each": bytes }),
        table: None,
    })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Starts a daemon, waits until it reports that it is ready, and ends it.
fn start(program: &Path, adapters: u32) -> Result<Start> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("vrdmad.toml");
    fs::write(&config, configuration(folder.path(), adapters)?)?;
    let notified = UnixDatagram::bind(folder.path().join("notify"))?;
    notified.set_read_timeout(Some(START_LIMIT))?;
    let begun = Instant::now();
    let child = Command::new(program)
        .args(["--log", "warn", "--config"])
        .arg(&config)
        .env("NOTIFY_SOCKET", folder.path().join("notify"))
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let running = Running(child);
    let mut message = [0; 64];
    let length = notified.recv(&mut message).context("it is not ready")?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(
        message[..length].starts_with(b"READY=1"),
        "it said something else"
    );
    let pages = fs::read_to_string(format!("/proc/{}/statm", running.0.id()))?;
    let resident: u64 = pages.split(' ').nth(1).context("no such field")?.parse()?;
    Ok(Start {
        seconds,
        bytes: (resident * PAGE_BYTES) as f64,
    })
}

fn configuration(folder: &Path, adapters: u32) -> Result<String> {
    let folder = folder.display();
    let mut text = format!(
        "[daemon]\nsocket = \"{folder}/vrdmad.sock\"\nrun_dir = \"{folder}\"\n[[portgroup]]\nname = \"g\"\n"
    );
    for number in 0..adapters {
        write!(
            text,
            "[[adapter]]\nname = \"a{number}\"\nportgroup = \"g\"\nkind = \"process\"\n"
        )?;
    }
    Ok(text)
}
