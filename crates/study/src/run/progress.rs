//! A progress bar with the time left, or one line a cell without a terminal.

use std::collections::BTreeSet;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::key::CellKey;

const TICK: Duration = Duration::from_millis(200);

/// The progress of a run.
pub(super) struct Progress {
    bar: ProgressBar,
    told: BTreeSet<CellKey>,
    watched: bool,
}

impl Progress {
    /// The progress of a run of about `seconds`.
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

    /// Shows the cell that is being measured.
    pub(super) fn say(&mut self, key: &CellKey) {
        self.bar.set_message(key.to_string());
        if !self.watched && self.told.insert(key.clone()) {
            eprintln!("{key}");
        }
    }

    /// Notes that a turn of this many seconds is over.
    pub(super) fn advance(&self, seconds: u64) {
        self.bar.inc(seconds);
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
