//! The result of one repetition of a measurement.

pub(crate) use vrdma_study::samples::Samples;

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// The mean latency, which stalls affect, unlike the typical one.
    pub(crate) mean: Option<f64>,
}
