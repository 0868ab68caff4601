//! Instructions that a shard and a driver execute for a 64-byte WRITE or READ within a host, counted by valgrind: they
//! do not depend on the load of the machine.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Measured;
use super::example::built;
use super::finding::{Finding, Target};

/// WRITEs of a batch of the example.
const BATCH: u64 = 32;

/// Batches of two runs: their difference leaves out what both do besides.
const RUNS: [u64; 2] = [100, 1100];

/// The name of what is counted.
pub(super) const WHAT: &str = "a local 64-byte WRITE, driver included";

const WHAT_OF_READS: &str = "a local 64-byte READ, driver included";

const GOAL: f64 = 2400.0;

pub(super) fn run() -> Result<Measured> {
    let program = built("shard_rate")?;
    let writes = of_batches(&program, &[])?;
    let reads = of_batches(&program, &["read"])?;
    let finding = |what: &str, counts: &Counts, target| {
        Finding::new(what.to_owned(), counts.each(BATCH), "instructions", target)
    };
    Ok(Measured {
        findings: vec![
            finding(WHAT, &writes, Some(Target::Below(GOAL))),
            finding(WHAT_OF_READS, &reads, None),
        ],
        details: json!({
            "batch": BATCH,
            "batches": RUNS,
            "instructions": { "writes": writes.counted, "reads": reads.counted },
        }),
        table: None,
    })
}

/// Instructions of a WRITE in the example `shard_rate`, however it was built.
pub(super) fn of_a_write(program: &Path) -> Result<f64> {
    Ok(of_batches(program, &[])?.each(BATCH))
}

/// Counts batches of WRITEs, or of the operation that `kind` selects.
fn of_batches(program: &Path, kind: &[&str]) -> Result<Counts> {
    Counts::of(RUNS, |batches| {
        let mut command = Command::new(program);
        command.arg(batches.to_string()).args(kind);
        command
    })
}

/// Instructions counted in two runs of different lengths.
pub(super) struct Counts {
    runs: [u64; 2],
    counted: [u64; 2],
}

impl Counts {
    pub(super) fn of(runs: [u64; 2], program: impl Fn(u64) -> Command) -> Result<Self> {
        Ok(Self {
            runs,
            counted: [count(&program(runs[0]))?, count(&program(runs[1]))?],
        })
    }

    /// Instructions of one operation, of which a run does `batch` in each of its steps.
    pub(super) fn each(&self, batch: u64) -> f64 {
        let done = (self.runs[1] - self.runs[0]) * batch;
        (self.counted[1] as f64 - self.counted[0] as f64) / done as f64
    }
}

fn count(program: &Command) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    let output = valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program.get_program())
        .args(program.get_args())
        .output()
        .context("cannot start valgrind: install the package valgrind")?;
    ensure!(output.status.success(), "the example failed under valgrind");
    collected(&String::from_utf8_lossy(&output.stderr))
}

/// The number in valgrind's line `==PID== Collected : NUMBER`.
fn collected(text: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.split_once("Collected :"));
    let (_, number) = line.context("valgrind told no count")?;
    let number = number.trim().parse();
    number.with_context(|| format!("valgrind counted {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::collected;

    #[test]
    fn the_count_is_in_valgrinds_words() {
        let text = "==7== Events    : Ir\n==7== Collected : 13231485\n==7==\n";
        assert_eq!(collected(text).unwrap(), 13_231_485);
        assert!(collected("==7== Events : Ir").is_err());
    }
}
