//! Figures that are computed from other figures.

use std::collections::BTreeMap;

use crate::cell::{Cell, Derivation, Work};
use crate::plan::sources;
use crate::record::CellRecord;
use crate::samples::Samples;

const MEGABITS: f64 = 8.0;

/// Medians by size.
type Curve = BTreeMap<u64, f64>;

/// Computes a cell from measured ones; `None` for a cell that is not computed.
#[must_use]
pub fn derived(cell: &Cell, measured: &[CellRecord]) -> Option<CellRecord> {
    let Work::Derived(derivation) = cell.work else {
        return None;
    };
    let curves: Vec<Curve> = sources(cell)
        .iter()
        .filter_map(|key| measured.iter().find(|record| record.key == *key))
        .map(curve)
        .collect();
    let mut record = CellRecord::new(cell.key.clone(), cell.unit);
    let figures = computed(derivation, &curves);
    for (size, value) in figures {
        record
            .figures
            .extend(Samples::of(vec![value]).map(|samples| (size, samples)));
    }
    if record.figures.is_empty() {
        let names: Vec<String> = sources(cell).iter().map(ToString::to_string).collect();
        record.reason = Some(format!(
            "it is computed from {}, which brought no figures",
            names.join(" and ")
        ));
    }
    Some(record)
}

fn curve(record: &CellRecord) -> Curve {
    let point = |(size, samples): (&String, &Samples)| Some((size.parse().ok()?, samples.median));
    record.figures.iter().filter_map(point).collect()
}

fn computed(derivation: Derivation, curves: &[Curve]) -> Vec<(String, f64)> {
    match (derivation, curves) {
        (Derivation::Peak(_), [curve]) => {
            let peak = peak(curve).map(|peak| ("-".to_owned(), peak * MEGABITS / 1e3));
            peak.into_iter().collect()
        }
        (Derivation::HalfPower(_), [curve]) => half_power(curve)
            .map(|size| ("-".to_owned(), size))
            .into_iter()
            .collect(),
        (Derivation::Overhead(_), [ours, native]) => {
            let difference =
                |(size, value): (&u64, &f64)| Some((size.to_string(), value - native.get(size)?));
            ours.iter().filter_map(difference).collect()
        }
        (Derivation::Saving(_), [ours, tcp]) => saving(ours, tcp)
            .map(|percent| ("-".to_owned(), percent))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

fn saving(ours: &Curve, tcp: &Curve) -> Option<f64> {
    let (size, value) = ours.first_key_value()?;
    Some(100.0 - 100.0 * value / tcp.get(size)?)
}

fn peak(curve: &Curve) -> Option<f64> {
    curve.values().copied().max_by(f64::total_cmp)
}

/// The size at which half the peak is reached: between two sizes, interpolated linearly in the logarithm of the size.
fn half_power(curve: &Curve) -> Option<f64> {
    let half = peak(curve)? / 2.0;
    let mut below: Option<(f64, f64)> = None;
    for (&size, &value) in curve {
        let size = size as f64;
        if value >= half {
            return Some(below.map_or(size, |(smaller, low)| {
                let share = (half - low) / (value - low);
                (smaller.ln() + share * (size.ln() - smaller.ln()))
                    .exp()
                    .round()
            }));
        }
        below = Some((size, value));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Unit;
    use crate::key::{CellKey, Study};

    fn curve_of(points: &[(u64, f64)]) -> Curve {
        points.iter().copied().collect()
    }

    #[test]
    fn half_power_lies_between_the_sizes_around_it() {
        let curve = curve_of(&[(2, 1.0), (64, 30.0), (256, 70.0), (1024, 100.0)]);
        assert_eq!(half_power(&curve), Some(128.0));
        assert_eq!(half_power(&curve_of(&[(2, 9.0), (4, 10.0)])), Some(2.0));
        assert_eq!(half_power(&Curve::new()), None);
    }

    #[test]
    fn a_peak_is_in_gigabits() {
        let curve = curve_of(&[(2, 1.0), (64, 3000.0), (128, 2000.0)]);
        let told = computed(Derivation::Peak("x"), &[curve]);
        assert_eq!(told, [("-".to_owned(), 24.0)]);
    }

    #[test]
    fn a_saving_is_a_share_of_what_tcp_takes() {
        let (ours, tcp) = (curve_of(&[(2048, 0.05)]), curve_of(&[(2048, 0.25)]));
        let told = computed(Derivation::Saving("x"), &[ours.clone(), tcp]);
        assert_eq!(told, [("-".to_owned(), 80.0)]);
        assert!(computed(Derivation::Saving("x"), &[ours, Curve::new()]).is_empty());
    }

    #[test]
    fn what_lacks_its_sources_says_so() {
        let cell = Cell {
            key: CellKey::new(Study::S0, "overhead-read-lat-polling", "virtual"),
            unit: Unit::Microseconds,
            work: Work::Derived(Derivation::Overhead("read-lat-polling")),
        };
        let record = derived(&cell, &[]).unwrap();
        assert!(
            record
                .reason
                .unwrap()
                .contains("s0/read-lat-polling/native")
        );
    }
}
