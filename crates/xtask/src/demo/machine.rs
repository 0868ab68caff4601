//! The machine that the figures were measured on.

use std::fs;

use anyhow::Result;
use serde::Serialize;
use vrdma_lab::image::Image;
use vrdma_study::machine::{BUSY_SHARE, Machine as Facts, cores};

/// Facts about host and guests.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    #[serde(flatten)]
    pub(crate) facts: Facts,
    /// Runnable processes before this program started anything, averaged over a minute.
    load_before: f64,
}

impl Machine {
    pub(crate) fn look(image: &Image) -> Result<Self> {
        Ok(Self {
            facts: Facts::look(image)?,
            load_before: load(),
        })
    }
}

/// Warns that the figures are not worth much: other programs delay the guests.
pub(crate) fn warn_when_busy() {
    let (load, cores) = (load(), cores());
    if load > BUSY_SHARE * cores as f64 {
        eprintln!(
            "other programs are busy (load {load} on {cores} cores): the figures will show that, and ratios may be off either way"
        );
    }
}

fn load() -> f64 {
    let averages = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    averages
        .split(' ')
        .next()
        .and_then(|first| first.parse().ok())
        .unwrap_or(0.0)
}
