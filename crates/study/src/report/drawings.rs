//! Drawings of a study.

use super::plot::{Across, Bars, Entry, Lines, Series};
use super::side::{Side, bytes};
use crate::cell::Unit;
use crate::key::{CellKey, Key};
use crate::tables;

impl Side<'_> {
    /// A measure over the bytes of its messages.
    pub(super) fn lines(&self, measure: &str) -> Lines {
        self.over(measure, Across::Sizes, |size| {
            bytes(size).map(|bytes| bytes as f64)
        })
    }

    /// A measure over the ranks of its cases, for cases with the number of ranks in their names.
    pub(super) fn weak_scaling(&self, measure: &str) -> Option<Lines> {
        let lines = self.over(measure, Across::Ranks, ranks);
        let has_line = lines.series.iter().any(|series| series.points.len() > 1);
        has_line.then_some(lines)
    }

    fn over(&self, measure: &str, across: Across, place: impl Fn(&str) -> Option<f64>) -> Lines {
        let mut series = Vec::new();
        for configuration in self.configurations(measure) {
            let cell = CellKey::new(self.study, measure, &configuration);
            let points = |value: &dyn Fn(&Key) -> Option<f64>| -> Vec<(f64, f64)> {
                let point = |size: &String| Some((place(size)?, value(&cell.at(size.as_str()))?));
                let mut points: Vec<_> = self.sizes(measure).iter().filter_map(point).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                points
            };
            let published = points(&|key| self.published(key));
            let ours = points(&|key| self.ours(key));
            series.push(Series {
                name: format!("{configuration}, ours"),
                is_ours: true,
                points: ours,
            });
            series.push(Series {
                name: format!("{configuration}, published"),
                is_ours: false,
                points: published,
            });
        }
        series.retain(|series| !series.points.is_empty());
        let unit = self
            .cells
            .iter()
            .find(|cell| cell.key.measure == measure)
            .map_or(Unit::Microseconds, |cell| cell.unit);
        Lines {
            title: format!("{} {measure}", self.study),
            across,
            unit: unit.text(),
            series,
        }
    }

    /// Ratios to the baseline, published and ours; only for configurations where both can be drawn.
    pub(super) fn bars(&self, measure: &str) -> Option<Bars> {
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
                Entry {
                    name: format!("{}{size}", key.cell.configuration),
                    published,
                    ours,
                }
            })
        });
        Some(Bars {
            title: format!("{} {measure}, times {baseline}", self.study),
            entries: entries.collect(),
        })
    }
}

/// Number of ranks in a name such as `n2np40`: the number after `np`.
fn ranks(case: &str) -> Option<f64> {
    let (_, ranks) = case.rsplit_once("np")?;
    ranks.parse::<u32>().ok().map(f64::from)
}
