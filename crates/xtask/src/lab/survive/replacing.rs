//! Ways to replace a worker: it is killed, or another program is installed.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use vrdma_lab::daemon::Daemon;

use super::PATIENCE;

/// How workers of daemons of one program are replaced.
pub(in crate::lab) enum Replacing {
    Kill,
    Upgrade(Installed),
}

/// A folder where the daemon's program is installed repeatedly, as a package manager does it.
pub(in crate::lab) struct Installed {
    folder: TempDir,
    times: Cell<usize>,
}

/// The same program in different files.
const COPIES: [&str; 2] = ["one", "other"];

impl Installed {
    pub(super) fn new(program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        for copy in COPIES {
            let to = folder.path().join(copy);
            fs::copy(program, to).with_context(|| format!("cannot copy {}", program.display()))?;
        }
        let installed = Self {
            folder,
            times: Cell::new(0),
        };
        installed.install()?;
        Ok(installed)
    }

    /// Path of the program.
    pub(super) fn program(&self) -> PathBuf {
        self.folder.path().join("vrdmad")
    }

    fn install(&self) -> Result<()> {
        let times = self.times.get();
        self.times.set(times + 1);
        let fresh = self.folder.path().join("fresh");
        fs::hard_link(
            self.folder.path().join(COPIES[times % COPIES.len()]),
            &fresh,
        )?;
        Ok(fs::rename(fresh, self.program())?)
    }
}

impl Replacing {
    /// Ends the worker, waits until the next one serves, and returns how long that took. `None` if there is no worker.
    pub(in crate::lab) fn replace(&self, daemon: &Daemon) -> Result<Option<Duration>> {
        let Some(worker) = daemon.worker_id() else {
            return Ok(None);
        };
        let began = Instant::now();
        match self {
            Self::Kill => signal("-KILL", worker)?,
            Self::Upgrade(installed) => {
                installed.install()?;
                signal("-HUP", daemon.process_id())?;
            }
        }
        while began.elapsed() < PATIENCE {
            let next = daemon.worker_id();
            if next.is_some() && next != Some(worker) && daemon.adapters().is_ok() {
                return Ok(Some(began.elapsed()));
            }
            thread::sleep(Duration::from_millis(1));
        }
        anyhow::bail!("no other worker serves:\n{}", daemon.log_tail())
    }
}

pub(super) fn signal(signal: &str, process: u32) -> Result<()> {
    let sent = Command::new("kill")
        .args([signal, &process.to_string()])
        .status()?;
    ensure!(sent.success(), "the process {process} cannot be signalled");
    Ok(())
}
