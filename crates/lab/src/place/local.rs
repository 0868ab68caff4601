//! Commands on this host.

use std::cell::RefCell;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Job, Place};
use crate::agent::settled;
use crate::guest::Output;
use crate::process::{Lifetime, Supervised};

/// This host, or a container's view of it.
pub struct Local {
    /// Makes the command that runs a shell's words there.
    enter: Box<dyn Fn(&str) -> Command>,
    /// Number of services that servers here offer, where the kernel does not show them.
    services: Box<dyn Fn() -> u32>,
    /// Folder of the commands' output.
    folder: PathBuf,
    started: AtomicU32,
}

impl Local {
    /// A place where `enter` makes the commands from a shell's words, with their output in files of `folder`.
    pub fn new(folder: &Path, enter: impl Fn(&str) -> Command + 'static) -> Self {
        Self {
            enter: Box::new(enter),
            services: Box::new(|| 0),
            folder: folder.to_owned(),
            started: AtomicU32::new(0),
        }
    }

    /// The same place, where a server is also ready when more services are offered than before it started.
    #[must_use]
    pub fn offering(mut self, services: impl Fn() -> u32 + 'static) -> Self {
        self.services = Box::new(services);
        self
    }
}

impl Place for Local {
    fn start(&self, command: &str) -> Result<Box<dyn Job + '_>> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let log = self.folder.join(format!("{number}.output"));
        let before = (self.services)();
        let process = Supervised::spawn(&(self.enter)(command), Some(&log), Lifetime::Owned)
            .with_context(|| format!("cannot start {command}"))?;
        Ok(Box::new(LocalJob {
            process: RefCell::new(process),
            services: &self.services,
            before,
            log,
        }))
    }
}

struct LocalJob<'a> {
    process: RefCell<Supervised>,
    services: &'a dyn Fn() -> u32,
    /// Services offered before the command started.
    before: u32,
    log: PathBuf,
}

impl Job for LocalJob<'_> {
    fn wait_ready(&self) -> Result<()> {
        let process = self.process.borrow().id();
        // The client may try after any sign.
        let _sign = settled::watch_or(process, || {
            (self.services)() > self.before || self.status().is_some()
        });
        Ok(())
    }

    fn status(&self) -> Option<i32> {
        let ended = self.process.borrow_mut().ended().ok().flatten();
        ended.map(shell_status)
    }

    fn finished(&self) -> Result<bool> {
        let process = self.process.borrow().id();
        // When the command has ended, its group still contains the watcher, which sleeps.
        let _sign = settled::watch_end_or(process, || self.status().is_some());
        Ok(self.status().is_some())
    }

    fn kill(&self) -> Result<()> {
        self.process.borrow_mut().kill();
        Ok(())
    }

    /// Returns both streams as standard output, in the order in which they were written.
    fn end(self: Box<Self>, limit: Duration) -> Result<Output> {
        let ended = self.process.borrow_mut().wait_for_exit(limit)?;
        let stdout = fs::read(&self.log).unwrap_or_default();
        let Some(ended) = ended else {
            self.process.borrow_mut().kill();
            let words = String::from_utf8_lossy(&stdout).into_owned();
            bail!("the command did not end in {} s:\n{words}", limit.as_secs());
        };
        Ok(Output {
            status: shell_status(ended),
            stdout,
            stderr: Vec::new(),
        })
    }
}

/// The status as a shell reports it: the exit code, or 128 and the signal's number.
fn shell_status(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
