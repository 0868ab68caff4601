//! Repetitions of one figure.

use serde::{Deserialize, Serialize};

/// At least one repetition, in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// All values.
    pub values: Vec<f64>,
    /// The median.
    pub median: f64,
    /// The smallest.
    pub minimum: f64,
    /// The largest.
    pub maximum: f64,
}

impl Samples {
    /// `None` if there are no values.
    #[must_use]
    pub fn of(values: Vec<f64>) -> Option<Self> {
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

    /// Difference of the extremes, as a share of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        match self.median {
            0.0 => 0.0,
            median => (self.maximum - self.minimum) / median,
        }
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
        assert_eq!(samples.spread(), 4.0);
        assert_eq!(samples.values, [9.0, 1.0, 2.0]);
        assert_eq!(Samples::of(vec![4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Samples::of(vec![]), None);
    }
}
