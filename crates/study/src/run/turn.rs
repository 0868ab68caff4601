//! One turn of a cell.

use std::time::Duration;

use anyhow::Result;

use super::entry::Entry;
use super::{Bench, Runner, now};
use crate::cell::Setting;
use crate::machine;
use crate::record::Repetition;
use crate::tool::{Figure, Tool};

/// Longest reason that is kept; logs are at its end.
const REASON_MAX: usize = 4000;

impl Runner<'_> {
    pub(super) fn turn(&self, entry: &mut Entry, bench: &mut dyn Bench) -> Result<()> {
        let Some((setting, tool)) = entry.runs else {
            return Ok(());
        };
        let begun = bench.begin(setting, tool);
        entry.started();
        if begun.is_ok() && !entry.is_warm {
            self.warm_up(bench, setting, tool);
            entry.is_warm = true;
        }
        let busy_before = machine::busy_share();
        let (at, since) = (now(), self.clock.now());
        let figures = begun.and_then(|()| self.figures(entry, setting, tool, bench));
        let seconds = (self.clock.now() - since).as_secs_f64();
        let (figures, failure) = match figures {
            Ok(figures) => (figures, None),
            Err(error) => (Vec::new(), Some(shortened(&format!("{error:#}")))),
        };
        entry.record.push(Repetition {
            at,
            seconds,
            busy_before,
            figures,
            failure,
        });
        self.folder.keep(&entry.record)
    }

    fn figures(
        &self,
        entry: &Entry,
        setting: Setting,
        tool: &Tool,
        bench: &mut dyn Bench,
    ) -> Result<Vec<Figure>> {
        let commands = tool.commands(self.header.scale);
        let output = bench.measure(setting, tool, &commands, self.limit(setting, tool))?;
        let turns = entry.record.repetitions.len();
        self.folder.keep_raw(&entry.cell.key, turns, &output)?;
        tool.figures(entry.cell.unit, &output)
    }

    /// Exchanges a few messages and ignores failures: the following turn reports them.
    fn warm_up(&self, bench: &mut dyn Bench, setting: Setting, tool: &Tool) {
        if let Some(commands) = tool.warm_up() {
            let _ = bench.measure(setting, tool, &commands, self.limit(setting, tool));
        }
    }

    /// The time limit: everything takes longer where many guests share a processor.
    fn limit(&self, setting: Setting, tool: &Tool) -> Duration {
        Duration::from_secs(tool.limit(self.header.scale) * self.room.crowd(setting))
    }
}

fn shortened(reason: &str) -> String {
    match reason.char_indices().nth(REASON_MAX) {
        Some((end, _)) => format!("{} ...", &reason[..end]),
        None => reason.to_owned(),
    }
}
