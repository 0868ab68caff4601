//! Commands in a guest.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use super::channel::Channel;
use super::console::Console;
use super::running::{Output, Running};
use super::{BOOT_LIMIT, COMMAND_LIMIT, config};
use crate::patience::patient;

/// A handle for what can be done with a guest without owning its process.
#[derive(Debug)]
pub struct Control {
    pub(super) name: String,
    pub(super) channel: Channel,
    pub(super) console: Console,
}

impl Control {
    /// Connects to a guest that another process started and kept.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn attach(run_dir: &Path, name: &str) -> Result<Self> {
        let file = |kind: &str| config::file(run_dir, name, kind);
        let channel =
            Channel::connect(&file("agent"), || Ok(false)).context("the guest is gone")?;
        channel.greet()?;
        channel.wait_for_boot(patient(BOOT_LIMIT)?)?;
        Ok(Self {
            name: name.to_owned(),
            channel,
            console: Console::new(file("console")),
        })
    }

    /// Runs a shell command to its end, within [`COMMAND_LIMIT`].
    ///
    /// # Errors
    /// When the guest dies or the limit passes; not when the command fails.
    pub fn run(&self, command: &str) -> Result<Output> {
        self.run_for(command, patient(COMMAND_LIMIT)?)
    }

    /// Runs a shell command to its end, within a limit.
    ///
    /// # Errors
    /// As [`Control::run`].
    pub fn run_for(&self, command: &str, limit: Duration) -> Result<Output> {
        self.spawn(command)?.wait(limit)
    }

    /// Runs a shell command that must succeed, and returns its output.
    ///
    /// # Errors
    /// As [`Control::run`], and when the command fails.
    pub fn check(&self, command: &str) -> Result<String> {
        let output = self.run(command)?;
        ensure!(
            output.status == 0,
            "guest {}: {command}: status {}\n{}{}",
            self.name,
            output.status,
            output.stdout_text(),
            output.stderr_text()
        );
        Ok(output.stdout_text())
    }

    /// Starts a shell command without input.
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn spawn(&self, command: &str) -> Result<Running> {
        self.start_command(command, false)
    }

    /// Starts a shell command that reads what [`Running::write`] sends.
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn spawn_with_input(&self, command: &str) -> Result<Running> {
        self.start_command(command, true)
    }

    /// Writes a file in the guest; `mode` is octal, as in `755`.
    ///
    /// # Errors
    /// When the guest is gone or cannot write it.
    pub fn put(&self, path: &str, mode: &str, contents: &[u8]) -> Result<()> {
        let command = format!("cat > '{path}' && chmod {mode} '{path}'");
        let running = self.spawn_with_input(&command)?;
        running.write(contents)?;
        running.close_input()?;
        let output = running.wait(patient(COMMAND_LIMIT)?)?;
        ensure!(
            output.status == 0,
            "guest {}: {path}: {}",
            self.name,
            output.stderr_text()
        );
        Ok(())
    }

    /// Waits until a server that was just started is ready for its client; returns the sign of it, one word of
    /// [`crate::agent::settled::Settled`].
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn wait_settled(&self, server: &Running) -> Result<String> {
        let group = server.wait_started(patient(COMMAND_LIMIT)?)?;
        Ok(self
            .check(&format!("/lab/agent settled {group}"))?
            .trim()
            .to_owned())
    }

    /// Waits until a server whose client has ended is gone (true), or waits as if for the next client (false).
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn wait_finished(&self, server: &Running) -> Result<bool> {
        let group = server.wait_started(patient(COMMAND_LIMIT)?)?;
        Ok(self.check(&format!("/lab/agent finished {group}"))?.trim() == "Gone")
    }

    /// The last lines of the guest's console.
    #[must_use]
    pub fn console_tail(&self) -> String {
        self.console.tail()
    }

    /// The guest's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn start_command(&self, command: &str, input: bool) -> Result<Running> {
        let shared = self
            .channel
            .start(command, input)
            .map_err(|error| self.explain(&error))?;
        Ok(Running::new(
            self.channel.clone(),
            shared,
            self.name.clone(),
            self.console.clone(),
        ))
    }

    pub(super) fn explain(&self, error: &anyhow::Error) -> anyhow::Error {
        // The first line has the error, for programs that show no more.
        anyhow!(
            "guest {}: {error:#}\nits console ends with:\n{}",
            self.name,
            self.console.tail()
        )
    }
}
