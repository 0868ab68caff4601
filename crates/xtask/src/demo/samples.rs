//! Repetitions of one measurement.

use serde::Serialize;

/// What one repetition told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// Beside a typical latency, which stalls do not move, the mean, which they do.
    pub(crate) mean: Option<f64>,
}

/// At least one repetition, in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Samples {
    pub(crate) values: Vec<f64>,
    pub(crate) median: f64,
    pub(crate) minimum: f64,
    pub(crate) maximum: f64,
}

impl Samples {
    /// `None` of nothing.
    pub(crate) fn of(values: Vec<f64>) -> Option<Self> {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let (&minimum, &maximum) = (sorted.first()?, sorted.last()?);
        Some(Self {
            median: median(&sorted),
            minimum,
            maximum,
            values,
        })
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let samples = Samples::of(vec![9.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            (samples.median, samples.minimum, samples.maximum),
            (2.0, 1.0, 9.0)
        );
        assert_eq!(samples.values, [9.0, 1.0, 2.0]);
        assert_eq!(Samples::of(vec![4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Samples::of(vec![]), None);
    }
}
