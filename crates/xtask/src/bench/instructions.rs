//! Instructions that a shard and a driver take for a 64-byte WRITE within a host, counted by valgrind: they do
//! not depend on what else the machine does.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Measured;
use super::example::built;
use super::finding::{Finding, Target};

/// WRITEs of a batch of the example.
const BATCH: u64 = 32;

/// Batches of two runs: what both do besides is not counted.
const RUNS: [u64; 2] = [100, 1100];

const GOAL: f64 = 2400.0;

pub(super) fn run() -> Result<Measured> {
    let program = built("shard_rate")?;
    let count = |batches: u64| -> Result<u64> {
        let mut valgrind = Command::new("valgrind");
        let output = valgrind
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .arg(batches.to_string())
            .output()
            .context("cannot start valgrind: install the package valgrind")?;
        ensure!(output.status.success(), "the example failed under valgrind");
        collected(&String::from_utf8_lossy(&output.stderr))
    };
    let counts = [count(RUNS[0])?, count(RUNS[1])?];
    let writes = (RUNS[1] - RUNS[0]) * BATCH;
    let each = (counts[1] - counts[0]) as f64 / writes as f64;
    Ok(Measured {
        findings: vec![Finding::new(
            "a local 64-byte WRITE, driver included".to_owned(),
            each,
            "instructions",
            Some(Target::Below(GOAL)),
        )],
        details: json!({ "batch": BATCH, "batches": RUNS, "instructions": counts }),
        table: None,
    })
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
