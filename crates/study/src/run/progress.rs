//! A bar with the time left, or a line a cell where nobody watches.

use std::collections::BTreeSet;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::key::CellKey;

const TICK: Duration = Duration::from_millis(200);

/// How far a run is.
pub(super) struct Progress {
    bar: ProgressBar,
    told: BTreeSet<CellKey>,
    watched: bool,
}

impl Progress {
    /// Of so many seconds, about.
    pub(super) fn new(seconds: u64) -> Self {
        let bar = ProgressBar::new(seconds);
        if let Ok(style) =
            ProgressStyle::with_template("{wide_bar} {percent:>3} %  {eta} left  {msg}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            told: BTreeSet::new(),
            watched: stderr().is_terminal(),
        }
    }

    /// What is measured now.
    pub(super) fn say(&mut self, key: &CellKey) {
        self.bar.set_message(key.to_string());
        if !self.watched && self.told.insert(key.clone()) {
            eprintln!("{key}");
        }
    }

    /// A turn of so many seconds is over.
    pub(super) fn advance(&self, seconds: u64) {
        self.bar.inc(seconds);
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
