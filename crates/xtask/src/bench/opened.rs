//! Latency of two programs beside a thousand adapters that are not open, or that a program holds open, with a
//! completion queue and a queue pair each, and never uses.
//!
//! ```text
//!   each repetition: a daemon with two adapters ── ib_write_lat
//!                    the same and a thousand more ── ib_write_lat
//!                    the same, and somebody holds them (opened/hold.c) ── ib_write_lat
//! ```

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use vrdma_lab::daemon::{Adapter, Daemon, User};
use vrdma_lab::pair::Side;
use vrdma_lab::process::Lifetime;
use vrdma_lab::steps::Steps;

use super::finding::{Finding, Target};
use super::process::{Told, table};
use super::two_programs::Ground;
use super::{Arguments, Measured};
use crate::compiled::compiled;
use crate::demo::perftest;
use crate::programs::preload;

const IDLE: u32 = 1000;

const PROGRAM: &str = "ib_write_lat -n 50000 -x 1 -F";

const TARGET: Target = Target::Below(1.1);

/// What the daemon has besides the two programs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Unopened,
    Held,
}

impl Beside {
    const ALL: [Self; 3] = [Self::Nothing, Self::Unopened, Self::Held];

    fn name(self) -> String {
        match self {
            Self::Nothing => "beside no other adapter".to_owned(),
            Self::Unopened => format!("beside {IDLE} unopened adapters"),
            Self::Held => format!("beside {IDLE} opened and idle adapters"),
        }
    }
}

/// The programs and hosts that each measurement needs.
struct Tools {
    ground: Ground,
    hold: PathBuf,
}

impl Tools {
    fn make() -> Result<Self> {
        let ground = Ground::make()?;
        let hold = compiled(ground.folder.path(), "hold", include_str!("opened/hold.c"))?;
        Ok(Self { ground, hold })
    }
}

/// Holds adapters open until it is dropped.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        // The program has nothing to save, and a failure means that it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<Measured> {
    let tools = Tools::make()?;
    let steps = Steps::default();
    let mut told = Vec::new();
    for repetition in 1..=arguments.repetitions {
        let step = steps.start(&format!("repetition {repetition}"));
        for beside in Beside::ALL {
            let name = beside.name();
            told.push(measure(&tools, beside).with_context(|| name)?);
        }
        step.done();
    }
    let lines = table::lines(&told);
    let typical = |beside: Beside| {
        let line = lines.iter().find(|line| line.name == beside.name());
        line.map(|line| line.typical.median)
            .context("every one was measured")
    };
    let alone = typical(Beside::Nothing)?;
    let findings = [Beside::Unopened, Beside::Held].map(|beside| {
        let what = format!("ib_write_lat {} / beside none", beside.name());
        Ok(Finding::new(
            what,
            typical(beside)? / alone,
            "times",
            Some(TARGET),
        ))
    });
    Ok(Measured {
        findings: findings.into_iter().collect::<Result<_>>()?,
        details: json!({ "adapters": IDLE, "program": PROGRAM, "lines": lines, "runs": told }),
        table: Some(format!(
            "{}\nMedians of {} repetitions, of two processes on one host.",
            table::render(&lines),
            arguments.repetitions
        )),
    })
}

fn measure(tools: &Tools, beside: Beside) -> Result<Told> {
    let ground = &tools.ground;
    let folder = tempfile::tempdir_in(ground.folder.path())?;
    let run_dir = folder.path().join("run");
    fs::create_dir(&run_dir)?;
    let mut adapters = Ground::adapters();
    if beside != Beside::Nothing {
        adapters.extend((0..IDLE).map(idle));
    }
    let _daemon = Daemon::start(&ground.daemon, &run_dir, &adapters, None, Lifetime::Owned)?;
    let _holder = match beside {
        Beside::Held => Some(hold(tools, &run_dir)?),
        _ => None,
    };
    let text = ground.run(&run_dir, PROGRAM)?;
    let [typical, p99, p999] = perftest::percentiles(&text)?;
    Ok(Told {
        cell: "latency, 2 B".to_owned(),
        name: beside.name(),
        unit: "us".to_owned(),
        typical,
        p99: Some(p99),
        p999: Some(p999),
    })
}

fn idle(number: u32) -> Adapter {
    let [_, _, high, low] = (number + 1).to_be_bytes();
    Adapter {
        name: format!("idle{number}"),
        mac: format!("02:00:00:01:{high:02x}:{low:02x}"),
        user: User::Processes(Ipv4Addr::new(10, 77, high, low)),
        is_away: false,
    }
}

/// Starts a program that has opened all of the adapters.
fn hold(tools: &Tools, run_dir: &Path) -> Result<Holder> {
    let ground = &tools.ground;
    let preload = preload(ground.wire.host(Side::A), Side::A, run_dir, &ground.library);
    // Without an adapter of its own the program sees all adapters, in the order of the configuration.
    let mut program = Command::new("env");
    program.args(["-u", vrdma_api::paths::ADAPTER_VARIABLE]);
    program.arg(&tools.hold).arg(IDLE.to_string());
    let mut command = preload.command(&program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = Holder(command.spawn().context("cannot start hold")?);
    let output = holder.0.stdout.take().context("its output is a pipe")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line == "held\n", "hold could not open {IDLE} adapters");
    Ok(holder)
}
