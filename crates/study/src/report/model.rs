//! What the report says, before it is HTML or Markdown.
//!
//! A measure of many sizes is a [`Table`] of its own: a row a size, configurations beside each other. All others of a
//! study share one list: a row a figure.

use super::plot::{Bars, Lines};
use super::side::Side;
use crate::machine::BUSY_SHARE;
use crate::plan::Scale;
use crate::published::Publication;
use crate::record::Results;

/// Where nothing is.
pub(super) const NOTHING: &str = "–";

/// Everything.
#[derive(Debug)]
pub struct Page {
    /// Where and how it was measured, sentence by sentence.
    pub notes: Vec<String>,
    /// In order.
    pub studies: Vec<Section>,
}

/// One study.
#[derive(Debug)]
pub struct Section {
    /// `s0 – title (kind, year)`.
    pub title: String,
    /// What was measured there.
    pub setting: String,
    /// What it says in words.
    pub claims: Vec<String>,
    /// Where our ratios are worse than those published.
    pub worse: Vec<String>,
    /// Single figures.
    pub list: Table,
    /// Measures of many sizes.
    pub curves: Vec<Table>,
    /// Cell and reason of what has no figure.
    pub not_run: Vec<(String, String)>,
    /// Title and drawing.
    pub(super) lines: Vec<Lines>,
    pub(super) bars: Vec<Bars>,
}

/// Text in rows; the first `words` columns are words, the others numbers.
#[derive(Debug, Default)]
pub struct Table {
    /// Above it.
    pub title: String,
    /// Column heads.
    pub head: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
    /// How many columns are words.
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

/// One in so many noisy turns spoils a run.
const NOISY_PART: usize = 4;

/// How much other programs disturbed the run, if they did, and what its figures are worth then.
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
