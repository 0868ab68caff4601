//! A command that runs in a guest, and its results.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use super::channel::Channel;
use super::console::Console;
use crate::agent::protocol::{Bytes, CHUNK, Request};

/// Interval at which a wait checks whether the guest has crashed.
const CRASH_LOOK: Duration = Duration::from_secs(1);

/// The signal that cannot be ignored.
const KILL: i32 = 9;

/// The results of a finished command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// As a shell reports it: the exit code, or 128 and the signal's number.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Standard output, as text.
    #[must_use]
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error, as text.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// A command in a guest. Dropping it kills the command.
#[derive(Debug)]
pub struct Running {
    channel: Channel,
    id: u64,
    guest: String,
    console: Console,
}

impl Running {
    pub(super) fn new(channel: Channel, id: u64, guest: String, console: Console) -> Self {
        Self {
            channel,
            id,
            guest,
            console,
        }
    }

    /// Waits until it has started and returns its process group.
    ///
    /// # Errors
    /// When the guest goes away or the limit passes.
    pub fn wait_started(&self, limit: Duration) -> Result<u32> {
        self.wait_until(limit, "has not started", |command| command.pid)
    }

    /// Waits for a complete line of standard output for which `wanted` is true.
    ///
    /// # Errors
    /// When the command ends without it, the guest goes away or the limit passes.
    pub fn wait_for_line(&self, limit: Duration, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let found = self.wait_until(limit, "has not printed the line", |command| {
            let text = String::from_utf8_lossy(&command.stdout);
            let line = text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            let line = line
                .map(str::trim_end)
                .find(|line| wanted(line))
                .map(str::to_owned);
            line.map(Ok).or_else(|| command.status.map(Err))
        })?;
        found.map_err(|status| anyhow!("the command ended with status {status} without the line"))
    }

    /// Waits for its end and takes its output. At the limit it is killed.
    ///
    /// # Errors
    /// When the guest goes away or the limit passes.
    pub fn wait(self, limit: Duration) -> Result<Output> {
        self.wait_until(limit, "has not ended", |command| {
            let status = command.status?;
            Some(Output {
                status,
                stdout: command.stdout.clone(),
                stderr: command.stderr.clone(),
            })
        })
    }

    /// Waits for its end, without taking its output.
    ///
    /// # Errors
    /// As [`Running::wait`].
    pub fn wait_status(&self, limit: Duration) -> Result<i32> {
        self.wait_until(limit, "has not ended", |command| command.status)
    }

    /// Returns what it has printed so far, on both streams.
    #[must_use]
    pub fn printed(&self) -> (Vec<u8>, Vec<u8>) {
        let printed = self.channel.wait_for(self.id, Instant::now(), |command| {
            Some((command.stdout.clone(), command.stderr.clone()))
        });
        printed.ok().flatten().unwrap_or_default()
    }

    /// Its exit status, if it has ended.
    #[must_use]
    pub fn status(&self) -> Option<i32> {
        self.channel
            .wait_for(self.id, Instant::now(), |command| command.status)
            .ok()
            .flatten()
    }

    /// Waits until it has printed more than `seen` bytes on standard output, or
    /// ended, and takes what came; `None` after the end.
    ///
    /// # Errors
    /// When the guest goes away.
    pub fn next_output(&self, seen: usize) -> Result<Option<Vec<u8>>> {
        loop {
            let deadline = Instant::now() + CRASH_LOOK;
            let news = self.channel.wait_for(self.id, deadline, |command| {
                let news = command.stdout.get(seen..).filter(|news| !news.is_empty());
                news.map(|news| Some(news.to_vec()))
                    .or_else(|| command.status.map(|_| None))
            })?;
            match news {
                Some(news) => return Ok(news),
                None => self.check_guest()?,
            }
        }
    }

    /// Sends bytes to its standard input.
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        for chunk in bytes.chunks(CHUNK) {
            self.channel.tell(&Request::Input {
                id: self.id,
                bytes: Bytes(chunk.to_vec()),
            })?;
        }
        Ok(())
    }

    /// Ends its standard input.
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn close_input(&self) -> Result<()> {
        self.channel.tell(&Request::Input {
            id: self.id,
            bytes: Bytes::default(),
        })
    }

    /// Sends a signal to its process group.
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn signal(&self, signal: i32) -> Result<()> {
        self.channel.tell(&Request::Kill {
            id: self.id,
            signal,
        })
    }

    /// Kills its process group.
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn kill(&self) -> Result<()> {
        self.signal(KILL)
    }

    fn wait_until<T>(
        &self,
        limit: Duration,
        complaint: &str,
        mut look: impl FnMut(&super::channel::Command) -> Option<T>,
    ) -> Result<T> {
        let end = Instant::now() + limit;
        loop {
            let deadline = end.min(Instant::now() + CRASH_LOOK);
            let found = self.channel.wait_for(self.id, deadline, &mut look);
            match found.map_err(|error| self.explain(error))? {
                Some(found) => return Ok(found),
                None => self.check_guest()?,
            }
            if Instant::now() >= end {
                let complaint = format!("the command {complaint} after {} s", limit.as_secs());
                return Err(self.explain(anyhow!(complaint)));
            }
        }
    }

    fn check_guest(&self) -> Result<()> {
        if self.console.shows_panic() {
            bail!(self.explain(anyhow!("the guest's kernel panicked")));
        }
        Ok(())
    }

    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let (stdout, stderr) = self.printed();
        // The first line has the error, for programs that show no more.
        anyhow!(
            "guest {}: {error:#}\nthe command printed:\n{}{}\nthe console ends with:\n{}",
            self.guest,
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr),
            self.console.tail()
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let ended = self
            .channel
            .forget(self.id)
            .is_none_or(|command| command.status.is_some());
        if !ended {
            // A guest that is gone has no command to kill.
            let _ = self.kill();
        }
    }
}
