//! The medians of two runs side by side.

use std::fmt;

use serde::Serialize;

use crate::cell::Unit;
use crate::key::Key;
use crate::record::Results;
use crate::samples::Samples;

/// Two runs.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Differences that make absolute figures incomparable, if any.
    pub warnings: Vec<String>,
    /// Figures that both have, in the tables' order.
    pub rows: Vec<Row>,
    /// Figures that only one of them has.
    pub only_in: [Vec<Key>; 2],
}

/// A figure that both runs have.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub key: Key,
    /// Unit of both medians.
    pub unit: Unit,
    /// Medians of the first and the second.
    pub medians: [f64; 2],
    /// The second median divided by the first.
    pub ratio: f64,
    /// Whether the repetitions of the two overlap, so that there may be no difference.
    pub within_spread: bool,
}

/// A figure of one run.
struct Entry<'a> {
    /// Its name.
    key: Key,
    /// Unit of the samples.
    unit: Unit,
    /// Its repetitions.
    samples: &'a Samples,
}

/// Compares the figures of two runs.
#[must_use]
pub fn compare(a: &Results, b: &Results) -> Comparison {
    let (first, second) = (entries(a), entries(b));
    let rows = first
        .iter()
        .filter_map(|entry| row(entry, &second))
        .collect();
    let lacks = |all: &[Entry], others: &[Entry]| {
        let missing = all
            .iter()
            .filter(|entry| !others.iter().any(|other| other.key == entry.key));
        missing.map(|entry| entry.key.clone()).collect()
    };
    Comparison {
        warnings: warnings(a, b),
        rows,
        only_in: [lacks(&first, &second), lacks(&second, &first)],
    }
}

fn entries(results: &Results) -> Vec<Entry<'_>> {
    let cells = results.cells.iter();
    cells
        .flat_map(|cell| {
            let key = |size: &String| cell.key.at(size.as_str());
            cell.figures.iter().map(move |(size, samples)| Entry {
                key: key(size),
                unit: cell.unit,
                samples,
            })
        })
        .collect()
}

fn row(entry: &Entry, others: &[Entry]) -> Option<Row> {
    let other = others
        .iter()
        .find(|other| other.key == entry.key && other.unit == entry.unit)?;
    let (a, b) = (entry.samples, other.samples);
    Some(Row {
        key: entry.key.clone(),
        unit: entry.unit,
        medians: [a.median, b.median],
        ratio: b.median / a.median,
        within_spread: a.minimum <= b.maximum && b.minimum <= a.maximum,
    })
}

fn warnings(a: &Results, b: &Results) -> Vec<String> {
    let machine = a.header.machine.difference(&b.header.machine).map(|difference| {
        format!("The runs are of different machines ({difference}): only ratios within a run carry over.")
            .replace(" there", " in the first").replace(" here", " in the second")
    });
    let scale = (a.header.scale != b.header.scale).then(|| {
        "One run is short and the other is full: their figures were taken otherwise.".to_owned()
    });
    machine.into_iter().chain(scale).collect()
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "{warning}")?;
        }
        for row in &self.rows {
            let [a, b] = row.medians;
            let doubt = if row.within_spread {
                "  (repetitions overlap)"
            } else {
                ""
            };
            let (key, unit, ratio) = (row.key.to_string(), row.unit.text(), row.ratio);
            writeln!(
                f,
                "{key:<48} {a:>12.3} {b:>12.3} {unit:<5} x {ratio:.2}{doubt}"
            )?;
        }
        let [first, second] = self.only_in.each_ref().map(Vec::len);
        write!(
            f,
            "{} figures in both, {first} only in the first, {second} only in the second",
            self.rows.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{CellKey, Study};
    use crate::machine::Machine;
    use crate::plan::Scale;
    use crate::record::{CellRecord, Header};

    fn results(cores: usize, values: &[f64]) -> Results {
        let machine = Machine {
            cores,
            ..Machine::default()
        };
        let mut cell = CellRecord::new(
            CellKey::new(Study::S4, "write-lat", "F"),
            Unit::Microseconds,
        );
        cell.figures
            .extend(Samples::of(values.to_vec()).map(|samples| ("2".to_owned(), samples)));
        Results {
            header: Header::new(machine, Scale::Short, 2, 0),
            cells: vec![cell],
        }
    }

    #[test]
    fn medians_and_their_ratio_stand_side_by_side() {
        let compared = compare(&results(2, &[10.0, 12.0]), &results(2, &[22.0, 22.0]));
        assert_eq!(
            (compared.rows[0].ratio, compared.rows[0].within_spread),
            (2.0, false)
        );
        assert!(compared.warnings.is_empty());
    }

    #[test]
    fn different_machines_are_told() {
        let compared = compare(&results(2, &[10.0]), &results(64, &[]));
        assert!(
            compared.warnings[0]
                .contains("different machines (2 cores in the first, 64 in the second)")
        );
        assert_eq!(compared.only_in[0].len(), 1);
        assert!(
            compared
                .to_string()
                .contains("0 figures in both, 1 only in the first")
        );
    }
}
