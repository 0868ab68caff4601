//! Tables of a study.

use super::model::{NOTHING, Table};
use super::number::{size, three_digits, with_spread};
use super::side::{Side, bytes};
use crate::key::{CellKey, Key};
use crate::record::CellRecord;
use crate::tables;

impl Side<'_> {
    pub(super) fn list(&self, measure: &str) -> Vec<Vec<String>> {
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

    pub(super) fn curve(&self, measure: &str) -> Table {
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

    pub(super) fn not_run(&self) -> Vec<(String, String)> {
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
}
