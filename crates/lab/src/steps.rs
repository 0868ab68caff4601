//! Progress for people: a spinner for each step that runs, or plain lines without a terminal.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(120);

/// A set of steps, some of which run at the same time.
pub struct Steps {
    bars: MultiProgress,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            bars: MultiProgress::new(),
        }
    }
}

impl Steps {
    /// Begins a step; it ends with [`Step::done`] or, failed, when dropped.
    #[must_use]
    pub fn start(&self, name: &str) -> Step {
        let bar = self.bars.add(ProgressBar::new_spinner());
        let style = ProgressStyle::with_template("{spinner} {prefix:.bold} {wide_msg:.dim}")
            .expect("the template is well formed");
        bar.set_style(style);
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(TICK);
        let watched = stderr().is_terminal();
        if !watched {
            eprintln!("{name} ...");
        }
        Step {
            bar,
            bars: self.bars.clone(),
            name: name.to_owned(),
            since: Instant::now(),
            watched,
        }
    }
}

/// One step.
pub struct Step {
    bar: ProgressBar,
    bars: MultiProgress,
    name: String,
    since: Instant,
    watched: bool,
}

impl Step {
    /// Shows what the step is doing.
    pub fn say(&self, message: &str) {
        self.bar.set_message(message.to_owned());
    }

    /// Ends the step successfully; one line with its duration remains.
    pub fn done(self) {
        let line = format!(
            "✓ {} ({:.1} s)",
            self.name,
            self.since.elapsed().as_secs_f64()
        );
        self.bar.finish_and_clear();
        if self.watched {
            let _ = self.bars.println(line);
        } else {
            eprintln!("{line}");
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
