//! Published and our figures of one study, by key.

use std::collections::{BTreeMap, BTreeSet};

use crate::key::{CellKey, Key, Study};
use crate::published::{Publication, Published};
use crate::record::{CellRecord, Results};
use crate::samples::Samples;
use crate::tables;

use super::model::NOTHING;

/// Number of sizes from which on a measure is a curve.
const CURVE_SIZES: usize = 4;

/// Most configurations side by side that can be read.
const CURVE_CONFIGURATIONS: usize = 4;

/// Longest note of a row, in characters; the full reason is below the tables.
const NOTE_MAX: usize = 160;

/// Published and measured data of a study.
pub(super) struct Side<'a> {
    pub(super) study: Study,
    pub(super) published: BTreeMap<Key, &'a Published>,
    /// The published cells, in their order.
    pub(super) order: Vec<&'a CellKey>,
    pub(super) ours: BTreeMap<Key, &'a Samples>,
    pub(super) cells: Vec<&'a CellRecord>,
    /// Names of the measures, in order of appearance.
    pub(super) measures: Vec<String>,
}

impl<'a> Side<'a> {
    pub(super) fn new(results: &'a Results, publication: &'a Publication) -> Self {
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

    /// Every key of a measure that either side has, in the order of configurations and then sizes.
    pub(super) fn keys(&self, measure: &str) -> Vec<Key> {
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

    /// The baseline first, then the published ones, then ours.
    pub(super) fn configurations(&self, measure: &str) -> Vec<String> {
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

    pub(super) fn sizes(&self, measure: &str) -> Vec<String> {
        let sizes: BTreeSet<_> = self
            .keys(measure)
            .into_iter()
            .map(|key| (natural(&key.size), key.size))
            .collect();
        sizes.into_iter().map(|(_, size)| size).collect()
    }

    pub(super) fn is_curve(&self, measure: &str) -> bool {
        let sizes = self
            .sizes(measure)
            .iter()
            .filter(|size| bytes(size).is_some())
            .count();
        sizes >= CURVE_SIZES && self.configurations(measure).len() <= CURVE_CONFIGURATIONS
    }

    pub(super) fn published(&self, key: &Key) -> Option<f64> {
        Some(self.published.get(key)?.number.as_ref()?.value)
    }

    /// The published number, with the digits that were printed.
    pub(super) fn published_text(&self, key: &Key) -> String {
        let number = self
            .published
            .get(key)
            .and_then(|figure| figure.number.as_ref());
        number.map_or_else(|| NOTHING.to_owned(), |number| number.text.clone())
    }

    pub(super) fn ours(&self, key: &Key) -> Option<f64> {
        Some(self.ours.get(key)?.median)
    }

    /// Published and our ratio to the baseline of the same size.
    pub(super) fn ratios(&self, key: &Key) -> [Option<f64>; 2] {
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

    pub(super) fn record(&self, key: &CellKey) -> Option<&CellRecord> {
        self.cells.iter().find(|cell| cell.key == *key).copied()
    }

    /// What a reader must know about the published value, and why there is none of ours.
    pub(super) fn notes(&self, key: &Key) -> String {
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

    /// The reason in one sentence, if there is no figure of ours.
    pub(super) fn reason(&self, key: &Key) -> String {
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

    pub(super) fn unit(&self, key: &Key) -> String {
        let published = self.published.get(key).map(|figure| figure.unit.clone());
        let ours = || {
            self.record(&key.cell)
                .map(|cell| cell.unit.text().to_owned())
        };
        published.or_else(ours).unwrap_or_default()
    }
}

/// The bytes of a size; of a collective's `RANKSxBYTES`, the bytes.
pub(super) fn bytes(size: &str) -> Option<u64> {
    let number = size.rsplit_once('x').map_or(size, |(_, bytes)| bytes);
    number.parse().ok()
}

/// A sort key: numbers by value, before words.
pub(super) fn natural(size: &str) -> (bool, u64, String) {
    match bytes(size) {
        Some(number) => (false, number, size.to_owned()),
        None => (true, 0, size.to_owned()),
    }
}

/// The first line, shortened to the length of a table's cell.
pub(super) fn first_line(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    match line.char_indices().nth(NOTE_MAX) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line.to_owned(),
    }
}
