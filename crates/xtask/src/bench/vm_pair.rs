//! The demo's cells with more repetitions, against the plan's ratios.

use anyhow::{Result, ensure};
use vrdma_lab::steps::Steps;

use super::finding::{Finding, Target};
use super::{Arguments, Measured};
use crate::demo::{Comparison, compare, failures, shown};
use crate::lab::daemon;

pub(super) fn run(arguments: &Arguments) -> Result<Measured> {
    let rows = compare(&daemon(true)?, arguments.repetitions, &Steps::default());
    let failures = failures(&rows);
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(Measured {
        findings: rows.iter().flat_map(findings).collect(),
        details: serde_json::to_value(&rows)?,
        table: Some(shown(&rows, arguments.repetitions)),
    })
}

/// The ratios to rxe and to TCP that the plan wants for a row.
fn targets(row: &Comparison) -> [Option<Target>; 2] {
    let at_least = |ratios: [f64; 2]| ratios.map(|ratio| Some(Target::AtLeast(ratio)));
    if row.is_bandwidth() {
        at_least([10.0, 10.0])
    } else if row.is_round_trip() {
        [None, None]
    } else {
        at_least([5.0, 3.0])
    }
}

fn findings(row: &Comparison) -> impl Iterator<Item = Finding> {
    let ratios = [("rxe", row.beside_rxe), ("TCP", row.beside_tcp)];
    let rows = ratios.into_iter().zip(targets(row));
    rows.filter_map(|((other, ratio), target)| {
        let what = format!("{}, beside {other}", row.title);
        Some(Finding::new(what, ratio?, "times as good", target))
    })
}
