//! `cargo xtask fuzz`: coverage-guided fuzzing of the targets of `crates/fuzz`, each for its share of the time.
//!
//! ```text
//!   crates/fuzz/targets/*.rs ── program ──► one libFuzzer process a target, as many at a time as there are jobs
//!   crates/fuzz/corpus, found ── where it starts         │
//!   target/fuzz/corpus ◄── inputs that reached more ─────┤
//!   target/fuzz/found  ◄── inputs that a target fails ───┤
//!   target/fuzz/executions.json ◄── how many they were ──┘   all runs together
//! ```
//! The programs are built on stable Rust: the flags are those of cargo-fuzz, and the runtime comes with the crate
//! `libfuzzer-sys`. Only `crates/fuzz` knows what a target may be fed and what it asserts.

mod folders;
mod program;
mod report;
mod running;
#[cfg(test)]
mod tests;
mod totals;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use folders::Folders;
pub(crate) use program::triple;
use totals::Tally;

/// Options of `cargo xtask fuzz`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only this target, or one of several
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
    /// How long all targets together take, without building [default: 60]
    #[arg(long, value_name = "N", conflicts_with = "hours")]
    seconds: Option<u32>,
    /// The same in hours
    #[arg(long, value_name = "N", value_parser = positive)]
    hours: Option<f64>,
    /// Targets that run at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Put the smallest inputs that reach as much code into crates/fuzz/corpus
    #[arg(long)]
    keep: bool,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// Time without an option.
const DEFAULT: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let folders = Folders::of_this_program()?;
    let targets = chosen(&folders.targets()?, &arguments.targets)?;
    let programs = program::build(&folders, &targets)?;
    let jobs = arguments
        .jobs
        .map_or_else(processors, NonZeroUsize::get)
        .min(targets.len());
    let each = share(arguments.time(), targets.len(), jobs);
    let tally = Tally::within(&folders.results);
    let figures = running::run_all(&folders, &tally, &programs, each, jobs)?;
    if arguments.keep {
        for program in &programs {
            running::keep(&folders, program)?;
        }
    }
    report::print(&figures, &tally.read()?, arguments.json)?;
    let failed = figures.iter().any(|figures| !figures.found.is_empty());
    Ok(ExitCode::from(u8::from(failed)))
}

impl Arguments {
    fn time(&self) -> Duration {
        let seconds = self
            .seconds
            .map(|seconds| Duration::from_secs(seconds.into()));
        let hours = self
            .hours
            .map(|hours| Duration::from_secs_f64(hours * 3600.0));
        seconds.or(hours).unwrap_or(DEFAULT)
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let hours = text
        .parse()
        .ok()
        .filter(|hours| (0.0..=10_000.0).contains(hours));
    hours.ok_or_else(|| "hours are a number from 0 to 10000".to_owned())
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// The time of one target, so that all of them take `all` with this number of jobs.
fn share(all: Duration, targets: usize, jobs: usize) -> Duration {
    let each = all.mul_f64(jobs as f64 / targets as f64);
    // libFuzzer counts seconds, and takes 0 as no limit.
    Duration::from_secs(each.as_secs().max(1))
}

/// The requested targets, in the order of all; all if none is requested.
fn chosen(all: &[String], wished: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = wished.iter().find(|name| !all.contains(name)) {
        bail!(
            "there is no target {unknown:?}; the targets are: {}",
            all.join(", ")
        );
    }
    let meant = |name: &&String| wished.is_empty() || wished.contains(name);
    Ok(all.iter().filter(meant).cloned().collect())
}
