//! Latency of a quiet tenant beside a greedy one.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Job, Place};

use super::host::{Host, ONE, THREE, Tools};
use crate::bench::finding::{Finding, Target};
use crate::bench::process::Told;
use crate::bench::process::table::Line;
use crate::demo::perftest;

/// The program of the quiet tenant.
const QUIET: &str = "ib_send_lat -F -x 1 -s 64 -n 20000 -p 18600";

/// Ten times as long as the slowest takes.
const RUN_LIMIT: Duration = Duration::from_secs(120);

/// Target for the 99 %, in multiples of the 99 % beside the hog.
const TARGET: Target = Target::Below(2.0);

/// The load beside the quiet tenant.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    /// A program that uses a core and nothing of the daemon.
    Hog,
    /// Two programs of perftest that do not end.
    Pair(&'static str),
    /// A program of churn.c.
    Churn(&'static str),
}

pub(super) struct Neighbour {
    pub(super) name: &'static str,
    beside: Beside,
}

pub(super) const ALL: [Neighbour; 6] = [
    Neighbour {
        name: "alone",
        beside: Beside::Nothing,
    },
    Neighbour {
        name: "beside a CPU hog",
        beside: Beside::Hog,
    },
    Neighbour {
        name: "beside writes of 64 MiB",
        beside: Beside::Pair("ib_write_bw -F -x 1 -s 67108864 -t 4"),
    },
    Neighbour {
        name: "beside writes of 64 B by 64 queue pairs",
        beside: Beside::Pair("ib_write_bw -F -x 1 -s 64 -q 64"),
    },
    Neighbour {
        name: "beside queue pairs made and destroyed",
        beside: Beside::Churn("queue-pairs"),
    },
    Neighbour {
        name: "beside registrations of 2^18 pages",
        beside: Beside::Churn("registrations"),
    },
];

const HOG: usize = 1;

pub(super) fn measure(tools: &Tools, neighbour: &Neighbour) -> Result<Told> {
    let host = Host::start(tools)?;
    let (a, b) = (host.place(THREE, Side::A)?, host.place(THREE, Side::B)?);
    let greedy: Vec<Box<dyn Job + '_>> = match neighbour.beside {
        Beside::Nothing => Vec::new(),
        Beside::Hog => vec![b.start("while :; do :; done")?],
        Beside::Pair(program) => {
            let program = format!("{program} --run_infinitely -p 18601");
            let server = a.start(&program)?;
            server.wait_ready()?;
            vec![server, b.start(&format!("{program} $A"))?]
        }
        Beside::Churn(what) => vec![b.start(&format!("{} {what}", tools.churn.display()))?],
    };
    let (server, client) = (host.place(ONE, Side::A)?, host.place(ONE, Side::B)?);
    let server = server.start(QUIET)?;
    server.wait_ready()?;
    let output = client.start(&format!("{QUIET} $A"))?.end(RUN_LIMIT)?;
    let text = output.stdout_text();
    ensure!(output.status == 0, "status {}:\n{text}", output.status);
    for greedy in &greedy {
        ensure!(greedy.status().is_none(), "the greedy program ended");
    }
    let [typical, p99, p999] = perftest::percentiles(&text)?;
    Ok(Told {
        cell: "latency, 64 B".to_owned(),
        name: neighbour.name.to_owned(),
        unit: "us".to_owned(),
        typical,
        p99: Some(p99),
        p999: Some(p999),
    })
}

/// Each load compared with the hog.
pub(super) fn findings(lines: &[Line]) -> Result<Vec<Finding>> {
    let tail = |line: &Line| {
        let p99 = line.p99.as_ref().context("perftest told it")?;
        anyhow::Ok(p99.median)
    };
    let Some(hog) = lines.get(HOG) else {
        return Ok(Vec::new());
    };
    let hog = tail(hog)?;
    let finding = |line: &Line| {
        let what = format!("99 % {} / beside a CPU hog", line.name);
        Ok(Finding::new(what, tail(line)? / hog, "times", Some(TARGET)))
    };
    lines[HOG + 1..].iter().map(finding).collect()
}
