//! Benchmarks that are examples of the crate `driver`, with device and driver in one process.
//!
//! An example prints JSON: `results`, each with `name`, `unit` and `median`, and a `target` for all or for some of
//! them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::Measured;
use super::finding::{Finding, Target};
use crate::cargo;

/// An example, and the kind of its targets.
pub(super) struct Example {
    name: &'static str,
    target: fn(f64) -> Target,
}

pub(super) const ENGINE: Example = Example {
    name: "shard_rate",
    target: Target::AtLeast,
};
pub(super) const SHARDS: Example = Example {
    name: "two_shards",
    target: Target::AtLeast,
};
pub(super) const NEIGHBOUR: Example = Example {
    name: "neighbour",
    target: Target::Below,
};
pub(super) const SILENT: Example = Example {
    name: "silent_guests",
    target: Target::Below,
};
pub(super) const QUEUE_PAIR: Example = Example {
    name: "idle_bytes",
    target: Target::Below,
};

#[derive(Deserialize)]
struct Report {
    target: Option<f64>,
    results: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    unit: String,
    median: f64,
    target: Option<f64>,
}

pub(super) fn run(example: &Example) -> Result<Measured> {
    let details: Value = serde_json::from_slice(&output(example.name)?)
        .with_context(|| format!("{} printed something else than its report", example.name))?;
    let report = Report::deserialize(&details)?;
    let finding = |row: Row| {
        let target = row.target.or(report.target).map(example.target);
        Finding::new(row.name, row.median, &row.unit, target)
    };
    Ok(Measured {
        findings: report.results.into_iter().map(finding).collect(),
        details,
        table: None,
    })
}

/// Builds an example and returns its program.
pub(super) fn built(example: &str) -> Result<PathBuf> {
    built_with(&[], &crate::library::target_folder()?, example)
}

/// The same with other settings of cargo, in a separate target folder. With the features of the whole workspace, for
/// which most crates are built already.
pub(super) fn built_with(settings: &[&str], folder: &Path, example: &str) -> Result<PathBuf> {
    let mut build = cargo::command();
    build
        .args(["build", "--quiet", "--release", "--workspace"])
        .args(["--example", example, "--target-dir"])
        .arg(folder);
    for setting in settings {
        build.args(["--config", setting]);
    }
    let status = build.status().context("cannot start cargo")?;
    ensure!(status.success(), "{example} does not build");
    Ok(folder.join("release/examples").join(example))
}

/// Runs an example and returns its output.
pub(super) fn output(example: &str) -> Result<Vec<u8>> {
    let program = built(example)?;
    let output = Command::new(&program)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{example} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}
