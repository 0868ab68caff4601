//! Contents of the report, before they are HTML or Markdown.
//!
//! A measure of many sizes is a [`Table`] of its own: one row a size, configurations in columns. All other measures of
//! a study share one list: one row a figure.

use super::plot::{Bars, Lines};
use super::side::Side;
use crate::machine::BUSY_SHARE;
use crate::plan::Scale;
use crate::published::Publication;
use crate::record::Results;

/// Shown in empty places.
pub(super) const NOTHING: &str = "–";

/// The whole report.
#[derive(Debug)]
pub struct Page {
    /// Machine and circumstances of the measurement, sentence by sentence.
    pub notes: Vec<String>,
    /// The studies, in order.
    pub studies: Vec<Section>,
}

/// One study.
#[derive(Debug)]
pub struct Section {
    /// `s0 – title (kind, year)`.
    pub title: String,
    /// What the study measured.
    pub setting: String,
    /// Its claims in words.
    pub claims: Vec<String>,
    /// Sentences on ratios of ours that are worse than the published ones.
    pub worse: Vec<String>,
    /// Table of single figures.
    pub list: Table,
    /// Tables of measures of many sizes.
    pub curves: Vec<Table>,
    /// Cell and reason for what has no figure.
    pub not_run: Vec<(String, String)>,
    /// Drawings of lines.
    pub(super) lines: Vec<Lines>,
    pub(super) bars: Vec<Bars>,
}

/// Text in rows; the first `words` columns are words, the others numbers.
#[derive(Debug, Default)]
pub struct Table {
    /// Title above the table.
    pub title: String,
    /// Column headings.
    pub head: Vec<String>,
    /// Cells of each row.
    pub rows: Vec<Vec<String>>,
    /// Number of columns that are words.
    pub words: usize,
}

impl Page {
    /// The report of a run.
    #[must_use]
    pub fn new(results: &Results, publications: &[Publication]) -> Self {
        let studies = publications
            .iter()
            .map(|publication| section(results, publication));
        Self {
            notes: notes(results),
            studies: studies.collect(),
        }
    }
}

fn notes(results: &Results) -> Vec<String> {
    let header = &results.header;
    let length = match header.scale {
        Scale::Full => "A full run",
        Scale::Short => "A short run (fewer messages and repetitions, smaller files)",
    };
    let mut notes = vec![
        format!("{}.", header.machine),
        format!(
            "{length} of at most {} repetitions that take turns (A B A B); medians, in brackets the least and the most. Latency is the typical message, half the round trip for send and write, the whole for read.",
            header.repetitions
        ),
        "A microsecond of an adapter of 2012 says nothing about a software device: compare the ratios.".to_owned(),
    ];
    notes.extend(noise(results));
    notes
}

/// Part of the turns, as a divisor, that must be noisy to spoil a run.
const NOISY_PART: usize = 4;

/// How much other programs disturbed the run, if they did, and what its figures are then worth.
pub(super) fn noise(results: &Results) -> Option<String> {
    let turns: Vec<f64> = results
        .cells
        .iter()
        .flat_map(|cell| &cell.repetitions)
        .map(|turn| turn.busy_before)
        .collect();
    let noisy = turns.iter().filter(|&&busy| busy > BUSY_SHARE).count();
    let verdict = match noisy * NOISY_PART > turns.len() {
        true => " Such figures show that things work, and little about speed.",
        false => "",
    };
    (noisy > 0).then(|| {
        format!(
            "Before {noisy} of {} turns other programs kept more than {:.0} % of the machine busy.{verdict}",
            turns.len(),
            BUSY_SHARE * 100.0
        )
    })
}

fn section(results: &Results, publication: &Publication) -> Section {
    let side = Side::new(results, publication);
    let (curves, singles): (Vec<&String>, Vec<&String>) = side
        .measures
        .iter()
        .partition(|measure| side.is_curve(measure));
    let mut list = Table {
        head: [
            "measure",
            "configuration",
            "size",
            "unit",
            "published",
            "ratio",
            "ours",
            "ratio",
            "notes",
        ]
        .map(str::to_owned)
        .to_vec(),
        words: 4,
        ..Table::default()
    };
    list.rows = singles
        .iter()
        .flat_map(|measure| side.list(measure))
        .collect();
    let mut bars: Vec<Bars> = singles
        .iter()
        .filter_map(|measure| side.bars(measure))
        .collect();
    bars.retain(|bars| bars.entries.len() > 1);
    Section {
        title: format!(
            "{} – {} ({}, {})",
            side.study, publication.title, publication.kind, publication.year
        ),
        setting: publication.setting.clone(),
        claims: publication.claims.clone(),
        worse: side.worse(),
        list,
        curves: curves.iter().map(|measure| side.curve(measure)).collect(),
        not_run: side.not_run(),
        lines: curves
            .iter()
            .map(|measure| side.lines(measure))
            .chain(
                singles
                    .iter()
                    .filter_map(|measure| side.weak_scaling(measure)),
            )
            .collect(),
        bars,
    }
}
