//! What one repetition of a measurement told.

pub(crate) use vrdma_study::samples::Samples;

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// Beside a typical latency, which stalls do not move, the mean, which they do.
    pub(crate) mean: Option<f64>,
}
