//! A bar with the time left, or a line a cell where nobody watches.

use std::collections::BTreeSet;
use std::io::{IsTerminal, stderr};
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cell::{Cell, Work};
use crate::key::CellKey;

const TICK: Duration = Duration::from_millis(200);

/// How far a run is.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Seconds that a turn of each cell takes, about.
    weights: Vec<u64>,
    /// Seconds that are missing of each, about.
    missing: Vec<u64>,
    told: Mutex<BTreeSet<CellKey>>,
    watched: bool,
}

impl Progress {
    /// Of `turns` turns each.
    pub(super) fn new(cells: &[Cell], turns: impl Fn(usize) -> usize) -> Self {
        let weights: Vec<u64> = cells.iter().map(weight).collect();
        let missing: Vec<u64> = weights
            .iter()
            .enumerate()
            .map(|(index, weight)| weight * turns(index) as u64)
            .collect();
        let bar = ProgressBar::new(missing.iter().sum());
        if let Ok(style) =
            ProgressStyle::with_template("{wide_bar} {percent:>3} %  {eta} left  {msg}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            weights,
            missing,
            told: Mutex::default(),
            watched: stderr().is_terminal(),
        }
    }

    /// Seconds that some cells needed at the begin, about.
    pub(super) fn left(&self, cells: Range<usize>) -> u64 {
        self.missing[cells].iter().sum()
    }

    /// What is measured now.
    pub(super) fn say(&self, key: &CellKey) {
        self.bar.set_message(key.to_string());
        let mut told = self
            .told
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if !self.watched && told.insert(key.clone()) {
            eprintln!("{key}");
        }
    }

    /// A turn of a cell is over.
    pub(super) fn advance(&self, index: usize) {
        self.bar.inc(self.weights[index]);
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn weight(cell: &Cell) -> u64 {
    match &cell.work {
        Work::Run(_, tool) => tool.seconds(),
        Work::Derived(_) | Work::Ranks(_) | Work::Never(_) => 0,
    }
}
