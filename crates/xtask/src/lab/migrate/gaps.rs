//! How long a peer's writes remain unanswered, reported by a program of ours at both ends.
//!
//! ```text
//!   guest a: 64 bytes for each queue pair <──writes, again and again── a process of host b, which prints each gap
//! ```
//! The program knows nothing of migrations: wall-clock times tell which gap belongs to which migration.

use std::fs;
use std::time::SystemTime;

use anyhow::{Context, Result};
use vrdma_lab::pair::{Pair, Side};

use crate::compiled::compiled;

/// The program's path in the guest.
const PROGRAM: &str = "/tmp/gaps";

/// The program's name on the host, in the pair's folder.
const NAME: &str = "gaps";

/// A span of time.
#[derive(Clone, Copy)]
pub(super) struct Span {
    began_us: u64,
    ended_us: u64,
}

impl Span {
    /// The span from that moment to now.
    pub(super) fn since(began: SystemTime) -> Self {
        let us = |moment: SystemTime| {
            let since = moment.duration_since(SystemTime::UNIX_EPOCH);
            since.map_or(0, |it| u64::try_from(it.as_micros()).unwrap_or(u64::MAX))
        };
        Self {
            began_us: us(began),
            ended_us: us(SystemTime::now()),
        }
    }

    fn touches(&self, other: &Self) -> bool {
        self.began_us < other.ended_us && other.began_us < self.ended_us
    }

    fn ms(&self) -> f64 {
        self.ended_us.saturating_sub(self.began_us) as f64 / 1e3
    }
}

/// The longest gap, in milliseconds, among those in the program's output that overlap with the span, if any.
pub(super) fn longest_within(span: &Span, said: &str) -> Option<f64> {
    let told = said.lines().filter_map(gap);
    let meant = told.filter(|gap| gap.touches(span));
    meant.map(|gap| gap.ms()).reduce(f64::max)
}

/// Parses a gap: its beginning and length.
fn gap(line: &str) -> Option<Span> {
    let (began, length) = line.strip_prefix("gap ")?.split_once(' ')?;
    let began_us = began.parse().ok()?;
    let length: u64 = length.parse().ok()?;
    Some(Span {
        began_us,
        ended_us: began_us + length,
    })
}

/// Installs the program where its rows expect it.
pub(super) fn install(pair: &Pair) -> Result<()> {
    let program = compiled(pair.run_dir(), NAME, include_str!("gaps.c"))?;
    let contents = fs::read(program).context("the program of gaps")?;
    pair.guest(Side::A).put(PROGRAM, "755", &contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "gap 1000000 20000\ngap 1020000 30000\ngap 4990000 80000\n12345 writes\n";

    fn within(began_us: u64, ended_us: u64) -> Option<f64> {
        longest_within(&Span { began_us, ended_us }, SAID)
    }

    #[test]
    fn a_migration_has_the_gaps_of_its_time() {
        assert_eq!(within(900_000, 2_000_000), Some(30.0));
        assert_eq!(within(5_010_000, 6_000_000), Some(80.0), "it was longer");
        assert_eq!(within(2_000_000, 3_000_000), None);
    }
}
