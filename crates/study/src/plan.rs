//! The cells of a run, selected by name from the tables.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Derivation, Work};
use crate::key::{CellKey, Study};
use crate::tables;

/// The extent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Enough of everything for stable figures.
    Full,
    /// A little of everything: fewer messages, fewer repetitions, smaller files.
    Short,
}

impl Scale {
    /// Default number of repetitions of each cell.
    #[must_use]
    pub const fn repetitions(self) -> u32 {
        match self {
            Self::Full => 5,
            Self::Short => 2,
        }
    }
}

/// A name that no study and no cell has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no study and no cell {0:?}; `vrdma study list` names them")]
pub struct Unknown(String);

/// The cells that a name selects.
enum Choice {
    Study(Study),
    Measure(String),
    Cell(CellKey),
}

/// The selected cells, in the tables' order, and those that they are computed from.
///
/// A name is a study (`s0`), a measure of one (`s0/send-lat-polling`) or a cell (`s4/write-lat/F`); no names select
/// all.
///
/// # Errors
/// When a name selects nothing.
pub fn chosen(names: &[String]) -> Result<Vec<Cell>, Unknown> {
    let all = tables::all();
    let choices = names
        .iter()
        .map(|name| choice(name, &all))
        .collect::<Result<Vec<_>, _>>()?;
    let wanted = |key: &CellKey| choices.is_empty() || choices.iter().any(|choice| choice.has(key));
    let sources: Vec<CellKey> = all
        .iter()
        .filter(|cell| wanted(&cell.key))
        .flat_map(sources)
        .collect();
    let needed = |cell: &Cell| wanted(&cell.key) || sources.contains(&cell.key);
    Ok(all.iter().filter(|cell| needed(cell)).cloned().collect())
}

/// Sorts cells into the order of running: the study that takes half of the time comes last; otherwise a limited run
/// would end in it and not reach the cells after it.
#[must_use]
pub fn in_running_order(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort_by_key(|cell| cell.key.study == Study::S2);
    cells
}

fn choice(name: &str, all: &[Cell]) -> Result<Choice, Unknown> {
    let parsed = match name.split('/').count() {
        1 => Study::from_str(name).ok().map(Choice::Study),
        2 => Some(Choice::Measure(format!("{name}/"))),
        _ => name.parse().ok().map(Choice::Cell),
    };
    let found = parsed.filter(|choice| all.iter().any(|cell| choice.has(&cell.key)));
    found.ok_or_else(|| Unknown(name.to_owned()))
}

impl Choice {
    fn has(&self, key: &CellKey) -> bool {
        match self {
            Self::Study(study) => key.study == *study,
            Self::Measure(prefix) => key.to_string().starts_with(prefix.as_str()),
            Self::Cell(chosen) => key == chosen,
        }
    }
}

/// The cells that a cell is computed from.
#[must_use]
pub fn sources(cell: &Cell) -> Vec<CellKey> {
    let of =
        |measure: &str, configuration: &str| CellKey::new(cell.key.study, measure, configuration);
    match cell.work {
        Work::Derived(Derivation::Peak(measure) | Derivation::HalfPower(measure)) => {
            vec![of(measure, &cell.key.configuration)]
        }
        Work::Derived(Derivation::Overhead(measure)) => {
            vec![of(measure, "virtual"), of(measure, "native")]
        }
        Work::Derived(Derivation::Saving(measure)) => {
            vec![of(measure, &cell.key.configuration), of(measure, "tcp")]
        }
        Work::Run(..) | Work::Ranks(_) | Work::Never(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Result<Vec<String>, Unknown> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Ok(chosen(&names)?
            .iter()
            .map(|cell| cell.key.to_string())
            .collect())
    }

    #[test]
    fn names_choose_studies_measures_and_cells() {
        assert!(
            keys(&["s4"])
                .unwrap()
                .iter()
                .all(|key| key.starts_with("s4/"))
        );
        assert_eq!(keys(&["s4/write-lat/F"]).unwrap(), ["s4/write-lat/F"]);
        assert_eq!(keys(&["s0/send-lat-polling"]).unwrap().len(), 2);
        assert_eq!(keys(&[]).unwrap().len(), tables::all().len());
    }

    #[test]
    fn the_longest_study_runs_last() {
        let cells = in_running_order(chosen(&[]).unwrap());
        let mut studies: Vec<Study> = cells.iter().map(|cell| cell.key.study).collect();
        studies.dedup();
        let expected = [Study::S0, Study::S1, Study::S3, Study::S4, Study::S2];
        assert_eq!(studies, expected);
    }

    #[test]
    fn a_computed_cell_brings_what_it_is_computed_from() {
        let chosen = keys(&["s0/half-power-send-events/virtual"]).unwrap();
        assert_eq!(
            chosen,
            [
                "s0/send-bw-events/virtual",
                "s0/half-power-send-events/virtual"
            ]
        );
    }

    #[test]
    fn an_unknown_name_is_told() {
        for name in ["s9", "s4/write-lat/G", "s4/flight", "", "s4/write-lat/F/2"] {
            let error = keys(&[name]).unwrap_err();
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }
}
