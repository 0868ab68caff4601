//! `vrdma relay` beside a QEMU that waits for a VM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::process::{Lifetime, POLL, Supervised};

/// How long a relay may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running relay; dropping it ends it.
#[derive(Debug)]
pub struct WaitingRelay {
    process: Supervised,
    log: PathBuf,
}

impl WaitingRelay {
    /// Starts the relay by this command, with its messages in a new file, and waits until it listens.
    ///
    /// # Errors
    /// When it does not listen, with its messages.
    pub fn start(command: &Command, log: &Path) -> Result<Self> {
        // Otherwise the log of an earlier relay would be continued.
        fs::write(log, "")?;
        let mut relay = Self {
            process: Supervised::spawn(command, Some(log), Lifetime::Owned)?,
            log: log.to_owned(),
        };
        relay.wait_for("waiting for a relay", 1, PATIENCE)?;
        Ok(relay)
    }

    /// Waits until it has printed the words this many times.
    ///
    /// # Errors
    /// When it ends or the limit passes before that.
    pub fn wait_for(&mut self, words: &str, times: usize, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while self.said().matches(words).count() < times {
            let ended = self.process.ended()?;
            ensure!(ended.is_none(), "the relay ended: {}", self.said());
            let is_late = Instant::now() > deadline;
            ensure!(
                !is_late,
                "the relay does not say {words:?}: {}",
                self.said()
            );
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for its end, which must be successful, and returns its messages.
    ///
    /// # Errors
    /// When it does not end, or fails.
    pub fn finish(mut self) -> Result<String> {
        let ended = self.process.wait_for_exit(PATIENCE)?;
        let is_good = ended.is_some_and(|status| status.success());
        ensure!(is_good, "the relay ended with {ended:?}: {}", self.said());
        Ok(self.said())
    }
}
