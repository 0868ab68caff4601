//! OpenFOAM's lid-driven cavity by `cavity.sh`: icoFoam's output for each step is checked, and its seconds are the
//! figure.
//!
//! ```text
//!  Time = 0.500015
//!  DICPCG:  Solving for p, Initial residual = 0.0428341, Final residual = 9.75644e-07, No Iterations 58
//!  time step continuity errors : sum local = 6.1165e-13, global = -1.57074e-23, cumulative = -9.87576e-24
//!  ExecutionTime = 0.02 s  ClockTime = 1 s
//!  End
//!  cavity: cells 1024 ranks 2 steps 3 seconds 0.763
//! ```
//!
//! As in the study, when the ranks double, the mesh doubles, the time step halves, and the number of steps doubles.

use anyhow::{Context, Result, ensure};

use crate::plan::Scale;

/// Largest part of a cell's volume that a solution may lose in a step.
const MOST_LOST: f64 = 1e-6;
/// Residual that the last solver of a step must reach: its tolerance.
const RESIDUAL: f64 = 1e-6;

/// Cells along one side for one rank, and steps: in a full run and in a short one. The study's ranks have 100,000
/// cells each on cores of their own.
const SIDE: [u32; 2] = [64, 32];
const STEPS: [u32; 2] = [25, 5];
/// Part of a cell that the lid moves through in a step, as in the study.
const COURANT: f64 = 0.024;
/// Length of the cavity in metres.
const LENGTH: f64 = 0.1;

/// The arguments of `cavity.sh` for a number of ranks, a power of two.
pub(crate) fn words(ranks: u32, scale: Scale) -> String {
    let scale = usize::from(scale == Scale::Short);
    // The ranks are 1 by 1, 2 by 1, 2 by 2, 4 by 2 ...
    let doublings = ranks.ilog2();
    let x = SIDE[scale] << doublings.div_ceil(2);
    let y = SIDE[scale] << (doublings / 2);
    let step = COURANT * LENGTH / f64::from(SIDE[scale]) / f64::from(ranks);
    format!("{x} {y} {step:.6e} {} {ranks}", STEPS[scale] * ranks)
}

/// Wall-clock seconds of the run.
pub(super) fn seconds(output: &str) -> Result<f64> {
    let lines = || output.lines().map(str::trim);
    let summary = lines().find(|line| line.starts_with("cavity: "));
    let summary = summary.with_context(|| format!("icoFoam did not end:\n{}", tail(output)))?;
    ensure!(
        lines().any(|line| line == "End"),
        "icoFoam did not come to its End"
    );
    let steps = lines().filter(|line| line.starts_with("Time = ")).count();
    let wanted = number(summary, "steps")?;
    ensure!(
        steps as f64 == wanted,
        "icoFoam made {steps} steps of {wanted}"
    );
    for line in lines().filter(|line| line.contains("continuity errors")) {
        let lost = number(line, "local =")?;
        ensure!(lost < MOST_LOST, "icoFoam's solution is wrong: {line}");
    }
    let last = lines().rfind(|line| line.contains("Solving for p,"));
    let last = last.context("icoFoam solved nothing")?;
    let rest = number(last, "Final residual =")?;
    ensure!(rest <= RESIDUAL, "icoFoam's solution is wrong: {last}");
    number(summary, "seconds")
}

/// The number after these words.
fn number(line: &str, words: &str) -> Result<f64> {
    let rest = line.split_once(words).map(|(_, rest)| rest);
    let word = rest.and_then(|rest| rest.split([' ', ',']).find(|word| !word.is_empty()));
    let value = word.and_then(|word| word.parse().ok());
    value
        .filter(|value: &f64| value.is_finite())
        .with_context(|| format!("icoFoam printed {line:?}"))
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = include_str!("cavity.sample.txt");

    #[test]
    fn a_good_run_tells_its_seconds() {
        assert_eq!(seconds(SAMPLE).unwrap(), 0.763);
    }

    #[test]
    fn wrong_solutions_are_no_figures() {
        for (from, to) in [
            ("\nEnd", ""),
            ("cavity: ", ""),
            ("steps 3", "steps 4"),
            ("sum local = 6.1165e-13", "sum local = nan"),
            ("sum local = 6.1165e-13", "sum local = 2e-6"),
        ] {
            assert!(SAMPLE.contains(from), "{from}");
            assert!(seconds(&SAMPLE.replacen(from, to, 1)).is_err(), "{to}");
        }
        let residual = SAMPLE.rfind("Final residual = ").unwrap();
        let worse = format!("{}Final residual = 1e-3,\nEnd\n", &SAMPLE[..residual]);
        assert!(seconds(&worse).is_err());
        assert!(seconds("").is_err());
    }

    #[test]
    fn each_rank_has_as_many_cells() {
        assert_eq!(words(1, Scale::Full), "64 64 3.750000e-5 25 1");
        assert_eq!(words(2, Scale::Full), "128 64 1.875000e-5 50 2");
        assert_eq!(words(4, Scale::Full), "128 128 9.375000e-6 100 4");
    }
}
