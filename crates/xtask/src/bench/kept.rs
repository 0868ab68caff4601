//! The cost of keeping a worker's state with a keeper: two programs on a daemon with a keeper, and on one without.
//!
//! ```text
//!   each repetition:  supervise = false ── ib_write_bw 64 B, ib_send_bw 64 B, ib_write_lat 2 B
//!                     supervise = true  ── the same
//! ```

use std::fs;

use anyhow::{Context, Result};
use serde_json::json;
use vrdma_lab::daemon::Daemon;
use vrdma_lab::process::Lifetime;
use vrdma_lab::steps::Steps;

use super::finding::{Finding, Target};
use super::process::{Told, table};
use super::two_programs::Ground;
use super::{Arguments, Measured};
use crate::demo::Measure;
use crate::demo::perftest;

/// A perftest program for both sides.
struct Program {
    cell: &'static str,
    command: &'static str,
    measure: Measure,
}

const PROGRAMS: [Program; 3] = [
    Program {
        cell: "writes, 64 B",
        command: "ib_write_bw -F -x 1 -s 64 -n 1000000",
        measure: Measure::Messages,
    },
    Program {
        cell: "sends, 64 B",
        command: "ib_send_bw -F -x 1 -s 64 -n 500000",
        measure: Measure::Messages,
    },
    Program {
        cell: "write latency, 2 B",
        command: "ib_write_lat -F -x 1 -n 50000",
        measure: Measure::OneWay,
    },
];

const ALONE: &str = "without a keeper";
const KEPT: &str = "with a keeper";

/// Target as a part of the rate without a keeper.
const RATE: Target = Target::AtLeast(0.95);

/// Target for the additional time of a message, in nanoseconds.
const COST: Target = Target::Below(100.0);

pub(super) fn run(arguments: &Arguments) -> Result<Measured> {
    let ground = Ground::make()?;
    let steps = Steps::default();
    let mut told = Vec::new();
    for repetition in 1..=arguments.repetitions {
        let step = steps.start(&format!("repetition {repetition}"));
        for is_kept in [false, true] {
            measure(&ground, is_kept, &mut told)?;
        }
        step.done();
    }
    let lines = table::lines(&told);
    let typical = |cell: &str, name: &str| {
        let line = lines
            .iter()
            .find(|line| line.cell == cell && line.name == name);
        line.map(|line| line.typical.median)
            .context("every one was measured")
    };
    let mut findings = Vec::new();
    for program in PROGRAMS {
        let (alone, kept) = (typical(program.cell, ALONE)?, typical(program.cell, KEPT)?);
        let finding = |what: &str, value, unit, target| {
            Finding::new(
                format!("{}, {what}", program.cell),
                value,
                unit,
                Some(target),
            )
        };
        findings.extend(match program.measure {
            // The rates are in thousands a second, so their inverses are milliseconds.
            Measure::Messages => vec![
                finding("with a keeper / without", kept / alone, "times", RATE),
                finding(
                    "for each message",
                    (1.0 / kept - 1.0 / alone) * 1e6,
                    "ns",
                    COST,
                ),
            ],
            _ => vec![finding("for each", (kept - alone) * 1e3, "ns", COST)],
        });
    }
    Ok(Measured {
        findings,
        details: json!({ "lines": lines, "runs": told }),
        table: Some(table::render(&lines).to_string()),
    })
}

fn measure(ground: &Ground, is_kept: bool, told: &mut Vec<Told>) -> Result<()> {
    let folder = tempfile::tempdir_in(ground.folder.path())?;
    let run_dir = folder.path().join("run");
    fs::create_dir(&run_dir)?;
    let adapters = Ground::adapters();
    let start = if is_kept {
        Daemon::start_kept
    } else {
        Daemon::start
    };
    let _daemon = start(&ground.daemon, &run_dir, &adapters, None, Lifetime::Owned)?;
    for program in PROGRAMS {
        let text = ground.run(&run_dir, program.command);
        let text = text.context(program.command)?;
        told.push(Told {
            cell: program.cell.to_owned(),
            name: if is_kept { KEPT } else { ALONE }.to_owned(),
            unit: program.measure.unit().to_owned(),
            typical: perftest::figure(program.measure, &text)?.value,
            p99: None,
            p999: None,
        });
    }
    Ok(())
}
