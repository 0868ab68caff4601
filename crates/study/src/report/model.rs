//! What the report says, before it is HTML or Markdown.
//!
//! A measure of many sizes is a [`Curve`]: a row a size, configurations beside each other. All others of a study
//! share one list: a row a figure.

use std::collections::{BTreeMap, BTreeSet};

use super::number::{size, three_digits, with_spread};
use super::plot::{Bars, Lines};
use crate::cell::Unit;
use crate::key::{CellKey, Key, Study};
use crate::machine::BUSY_SHARE;
use crate::plan::Scale;
use crate::published::{Publication, Published};
use crate::record::{CellRecord, Results};
use crate::samples::Samples;
use crate::tables;

/// From so many sizes on a measure is a curve.
const CURVE_SIZES: usize = 4;

/// More than so many configurations beside each other cannot be read.
const CURVE_CONFIGURATIONS: usize = 4;

/// Longest note of a row, in characters; the whole reason stands below the tables.
const NOTE_MAX: usize = 160;

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

/// Both sides of one study, by key.
struct Side<'a> {
    study: Study,
    published: BTreeMap<Key, &'a Published>,
    /// The published cells as they came.
    order: Vec<&'a CellKey>,
    ours: BTreeMap<Key, &'a Samples>,
    cells: Vec<&'a CellRecord>,
    /// Of each measure, in order of appearance.
    measures: Vec<String>,
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
            "{length} of {} repetitions that take turns (A B A B); medians, in brackets the least and the most. Latency is the typical message, half the round trip for send and write, the whole for read.",
            header.repetitions
        ),
        "A microsecond of an adapter of 2012 says nothing about a software device: compare the ratios.".to_owned(),
    ];
    let turns: Vec<f64> = results
        .cells
        .iter()
        .flat_map(|cell| &cell.repetitions)
        .map(|turn| turn.busy_before)
        .collect();
    let noisy = turns.iter().filter(|&&busy| busy > BUSY_SHARE).count();
    if noisy > 0 {
        notes.push(format!(
            "The machine was noisy: before {noisy} of {} turns other programs kept more than {:.0} % of it busy.",
            turns.len(),
            BUSY_SHARE * 100.0
        ));
    }
    notes
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
        list,
        curves: curves.iter().map(|measure| side.curve(measure)).collect(),
        not_run: side.not_run(),
        lines: curves.iter().map(|measure| side.lines(measure)).collect(),
        bars,
    }
}

impl<'a> Side<'a> {
    fn new(results: &'a Results, publication: &'a Publication) -> Self {
        let study = publication.study;
        let cells: Vec<&CellRecord> = results
            .cells
            .iter()
            .filter(|cell| cell.key.study == study)
            .collect();
        let published: BTreeMap<Key, &Published> = publication
            .figures
            .iter()
            .map(|figure| (figure.key.clone(), figure))
            .collect();
        let figures = cells.iter().flat_map(|cell| {
            cell.figures
                .iter()
                .map(|(size, samples)| (cell.key.at(size.as_str()), samples))
        });
        let mut measures: Vec<String> = Vec::new();
        let named = publication
            .figures
            .iter()
            .map(|figure| &figure.key.cell.measure);
        for measure in named.chain(cells.iter().map(|cell| &cell.key.measure)) {
            if !measures.contains(measure) {
                measures.push(measure.clone());
            }
        }
        Self {
            study,
            published,
            order: publication
                .figures
                .iter()
                .map(|figure| &figure.key.cell)
                .collect(),
            ours: figures.collect(),
            cells,
            measures,
        }
    }

    /// Every key that somebody has a word on, in the order of configurations and then sizes.
    fn keys(&self, measure: &str) -> Vec<Key> {
        let of_measure = |key: &&Key| key.cell.measure == measure;
        let mut keys: BTreeSet<Key> = self
            .published
            .keys()
            .chain(self.ours.keys())
            .filter(of_measure)
            .cloned()
            .collect();
        for cell in self.cells.iter().filter(|cell| cell.key.measure == measure) {
            if !keys.iter().any(|key| key.cell == cell.key) {
                keys.insert(cell.key.at("-"));
            }
        }
        let order = self.configurations(measure);
        let mut keys: Vec<Key> = keys.into_iter().collect();
        let place = |key: &Key| {
            order
                .iter()
                .position(|name| *name == key.cell.configuration)
        };
        keys.sort_by_key(|key| (place(key), natural(&key.size)));
        keys
    }

    /// The baseline first, then as published, then ours.
    fn configurations(&self, measure: &str) -> Vec<String> {
        let baseline = tables::baseline(self.study, measure).to_owned();
        let ours = self.cells.iter().map(|cell| &cell.key);
        let known: Vec<&CellKey> = self
            .order
            .iter()
            .copied()
            .chain(ours)
            .filter(|key| key.measure == measure)
            .collect();
        let mut names: Vec<String> = Vec::new();
        if known.iter().any(|key| key.configuration == baseline) {
            names.push(baseline);
        }
        for key in known {
            if !names.contains(&key.configuration) {
                names.push(key.configuration.clone());
            }
        }
        names
    }

    fn sizes(&self, measure: &str) -> Vec<String> {
        let sizes: BTreeSet<_> = self
            .keys(measure)
            .into_iter()
            .map(|key| (natural(&key.size), key.size))
            .collect();
        sizes.into_iter().map(|(_, size)| size).collect()
    }

    fn is_curve(&self, measure: &str) -> bool {
        let sizes = self
            .sizes(measure)
            .iter()
            .filter(|size| bytes(size).is_some())
            .count();
        sizes >= CURVE_SIZES && self.configurations(measure).len() <= CURVE_CONFIGURATIONS
    }

    fn published(&self, key: &Key) -> Option<f64> {
        Some(self.published.get(key)?.number.as_ref()?.value)
    }

    /// With the digits that were printed.
    fn published_text(&self, key: &Key) -> String {
        let number = self
            .published
            .get(key)
            .and_then(|figure| figure.number.as_ref());
        number.map_or_else(|| NOTHING.to_owned(), |number| number.text.clone())
    }

    fn ours(&self, key: &Key) -> Option<f64> {
        Some(self.ours.get(key)?.median)
    }

    /// Published and ours beside the baseline of the same size.
    fn ratios(&self, key: &Key) -> [Option<f64>; 2] {
        let baseline = tables::baseline(self.study, &key.cell.measure);
        if key.cell.configuration == baseline {
            return [None, None];
        }
        let beside = CellKey::new(self.study, &key.cell.measure, baseline).at(key.size.as_str());
        let ratio = |value: Option<f64>, base: Option<f64>| Some(value? / base?);
        [
            ratio(self.published(key), self.published(&beside)),
            ratio(self.ours(key), self.ours(&beside)),
        ]
    }

    fn record(&self, key: &CellKey) -> Option<&CellRecord> {
        self.cells.iter().find(|cell| cell.key == *key).copied()
    }

    /// What a reader must know of the published value, and why there is none of ours.
    fn notes(&self, key: &Key) -> String {
        let published = self
            .published
            .get(key)
            .and_then(|figure| figure.note.clone());
        let ours = Some(self.reason(key)).filter(|reason| !reason.is_empty());
        let notes = [("published", published), ("ours", ours)];
        let told = notes
            .into_iter()
            .filter_map(|(who, note)| Some(format!("{who}: {}", note?)));
        told.collect::<Vec<_>>().join("; ")
    }

    /// One sentence, where there is no figure of ours.
    fn reason(&self, key: &Key) -> String {
        if self.ours.contains_key(key) {
            return String::new();
        }
        match self.record(&key.cell) {
            None => "not part of this run".to_owned(),
            Some(cell) => match &cell.reason {
                Some(reason) => first_line(reason),
                None if cell.figures.is_empty() => "not measured yet".to_owned(),
                None => "this size was not measured".to_owned(),
            },
        }
    }

    fn unit(&self, key: &Key) -> String {
        let published = self.published.get(key).map(|figure| figure.unit.clone());
        let ours = || {
            self.record(&key.cell)
                .map(|cell| cell.unit.text().to_owned())
        };
        published.or_else(ours).unwrap_or_default()
    }

    fn list(&self, measure: &str) -> Vec<Vec<String>> {
        let baseline = tables::baseline(self.study, measure);
        let times = |ratio: Option<f64>| {
            ratio.map_or_else(String::new, |ratio| {
                format!("{} × {baseline}", three_digits(ratio))
            })
        };
        let row = |key: &Key| {
            let [published, ours] = self.ratios(key).map(times);
            let figure = self
                .ours
                .get(key)
                .map_or_else(|| NOTHING.to_owned(), |samples| with_spread(samples));
            vec![
                measure.to_owned(),
                key.cell.configuration.clone(),
                size(&key.size),
                self.unit(key),
                self.published_text(key),
                published,
                figure,
                ours,
                self.notes(key),
            ]
        };
        self.keys(measure).iter().map(row).collect()
    }

    fn curve(&self, measure: &str) -> Table {
        let configurations = self.configurations(measure);
        let baseline = tables::baseline(self.study, measure);
        let key = |configuration: &str, size: &str| {
            CellKey::new(self.study, measure, configuration).at(size)
        };
        let unit = self.unit(&self.keys(measure)[0]);
        let mut head = vec!["size".to_owned()];
        for configuration in &configurations {
            head.extend(["published", "ours"].map(|who| format!("{configuration}, {who}")));
            if configuration != baseline {
                head.extend(
                    ["published", "ours"].map(|who| format!("{configuration} / {baseline}, {who}")),
                );
            }
        }
        let row = |bytes: &String| {
            let mut row = vec![size(bytes)];
            for configuration in &configurations {
                let key = key(configuration, bytes);
                row.push(self.published_text(&key));
                row.push(
                    self.ours(&key)
                        .map_or_else(|| NOTHING.to_owned(), three_digits),
                );
                if configuration != baseline {
                    let text =
                        |ratio: Option<f64>| ratio.map_or_else(|| NOTHING.to_owned(), three_digits);
                    row.extend(self.ratios(&key).map(text));
                }
            }
            row
        };
        let sizes: Vec<String> = self
            .sizes(measure)
            .into_iter()
            .filter(|size| bytes(size).is_some())
            .collect();
        Table {
            title: format!("{measure}, {unit}"),
            head,
            rows: sizes.iter().map(row).collect(),
            words: 1,
        }
    }

    fn not_run(&self) -> Vec<(String, String)> {
        let without = self.cells.iter().filter(|cell| cell.figures.is_empty());
        let reason = |cell: &&CellRecord| {
            let reason = cell
                .reason
                .clone()
                .unwrap_or_else(|| "not measured yet".to_owned());
            (cell.key.to_string(), reason)
        };
        without.map(reason).collect()
    }

    fn lines(&self, measure: &str) -> Lines {
        let mut series = Vec::new();
        for configuration in self.configurations(measure) {
            let cell = CellKey::new(self.study, measure, &configuration);
            let points = |value: &dyn Fn(&Key) -> Option<f64>| -> Vec<(f64, f64)> {
                let point =
                    |size: &String| Some((bytes(size)? as f64, value(&cell.at(size.as_str()))?));
                self.sizes(measure).iter().filter_map(point).collect()
            };
            let published = points(&|key| self.published(key));
            let ours = points(&|key| self.ours(key));
            series.push((format!("{configuration}, ours"), true, ours));
            series.push((format!("{configuration}, published"), false, published));
        }
        series.retain(|(_, _, points)| !points.is_empty());
        let unit = self
            .cells
            .iter()
            .find(|cell| cell.key.measure == measure)
            .map_or(Unit::Microseconds, |cell| cell.unit);
        Lines {
            title: format!("{} {measure}", self.study),
            unit: unit.text(),
            series,
        }
    }

    /// Ratios to the baseline, published and ours; only where both can be drawn.
    fn bars(&self, measure: &str) -> Option<Bars> {
        let keys = self.keys(measure);
        let baseline = tables::baseline(self.study, measure);
        let entries = keys.iter().filter_map(|key| {
            let [published, ours] = self.ratios(key);
            (published.is_some() || ours.is_some()).then(|| {
                let size = if key.size == "-" || key.size == "2" {
                    String::new()
                } else {
                    format!(" {}", key.size)
                };
                (
                    format!("{}{size}", key.cell.configuration),
                    [published, ours],
                )
            })
        });
        Some(Bars {
            title: format!("{} {measure}, times {baseline}", self.study),
            entries: entries.collect(),
        })
    }
}

/// The bytes of a size; of a collective's `RANKSxBYTES` those of a rank.
fn bytes(size: &str) -> Option<u64> {
    let number = size.rsplit_once('x').map_or(size, |(_, bytes)| bytes);
    number.parse().ok()
}

/// Numbers by value, before words.
fn natural(size: &str) -> (bool, u64, String) {
    match bytes(size) {
        Some(number) => (false, number, size.to_owned()),
        None => (true, 0, size.to_owned()),
    }
}

/// The first line, and of that no more than a table's cell can hold.
fn first_line(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    match line.char_indices().nth(NOTE_MAX) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line.to_owned(),
    }
}
