//! Describes where our ratios are worse than the published ones.

use super::number::{size, three_digits};
use super::side::Side;
use crate::key::Key;
use crate::tables;

/// Factor up to which a ratio is not called worse than the published one.
const SAME: f64 = 1.1;

/// A ratio with the published one.
struct Beside {
    key: Key,
    published: f64,
    ours: f64,
    /// How many times worse it is.
    times: f64,
}

impl Side<'_> {
    /// One sentence for each configuration that is worse.
    pub(super) fn worse(&self) -> Vec<String> {
        let measures = self.measures.iter();
        let sentences = measures.flat_map(|measure| {
            let configurations = self.configurations(measure).into_iter();
            configurations.filter_map(move |name| self.worse_than_published(measure, &name))
        });
        sentences.collect()
    }

    fn worse_than_published(&self, measure: &str, configuration: &str) -> Option<String> {
        let keys = self.keys(measure).into_iter();
        let both = keys.filter(|key| key.cell.configuration == configuration);
        let both: Vec<Beside> = both.filter_map(|key| self.beside(key)).collect();
        let all = both.len();
        let worse = both.into_iter().filter(|beside| beside.times > SAME);
        let worse: Vec<Beside> = worse.collect();
        let worst = worse.iter().max_by(|a, b| a.times.total_cmp(&b.times))?;
        let baseline = tables::baseline(self.study, measure);
        let [ours, published] = [worst.ours, worst.published].map(three_digits);
        let at = match all {
            1 => String::new(),
            _ => format!(
                " at {}, the worst of {} of {all} sizes",
                size(&worst.key.size),
                worse.len()
            ),
        };
        Some(format!(
            "{measure}, {configuration}: {ours} × {baseline} here and {published} × published{at}."
        ))
    }

    fn beside(&self, key: Key) -> Option<Beside> {
        let [published, ours] = self.ratios(&key);
        let (published, ours) = (published?, ours?);
        let is_time = self.record(&key.cell)?.unit.is_time();
        let times = if is_time {
            ours / published
        } else {
            published / ours
        };
        Some(Beside {
            key,
            published,
            ours,
            times,
        })
    }
}
