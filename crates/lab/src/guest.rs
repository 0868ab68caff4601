//! A virtual machine that runs commands.
//!
//! ```text
//!  start --> QEMU runs --hello--> agent is up --/lab/up KIND--> ready
//!               ^                                                |
//!               +------------------- reboot ---------------------+
//! ```
//!
//! Calls block, each under a limit. Errors end with the last lines of the
//! guest's console, since a guest that is silent has usually said why there.

mod agent_program;
mod arguments;
mod channel;
mod config;
mod console;
mod running;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::image::{Accelerator, Image, Initramfs, qemu};
use crate::process::Supervised;
use agent_program::agent_program;
use channel::Channel;
pub use config::{Ethernet, GuestConfig, Kind, MAX_SOCKET_PATH, check_socket_path};
use console::Console;
pub(crate) use console::tail as log_tail;
pub use running::{Output, Running};

/// How long a guest may take from power to its agent, under TCG on a busy host.
pub const BOOT_LIMIT: Duration = Duration::from_secs(90);

/// How long a command may take unless told otherwise.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// A running guest; dropping it ends its QEMU, unless it is to be kept.
#[derive(Debug)]
pub struct Guest {
    config: GuestConfig,
    process: Supervised,
    control: Control,
}

/// What can be done with a guest without owning its process.
#[derive(Debug)]
pub struct Control {
    name: String,
    channel: Channel,
    console: Console,
}

impl Guest {
    /// Starts QEMU and connects to the agent's port; [`Guest::wait_ready`] waits for the boot.
    ///
    /// # Errors
    /// When a path is too long for a socket, or QEMU does not start.
    pub fn start(image: &Image, accelerator: Accelerator, config: &GuestConfig) -> Result<Self> {
        config.check()?;
        let initramfs = config.file("initramfs");
        Initramfs::guest(image, agent_program()?, &config.environment())?.write(&initramfs)?;
        let mut command = qemu(image);
        command.args(arguments::arguments(image, accelerator, config));
        let command = config.pinned(&command);
        let mut process =
            Supervised::spawn(&command, Some(&config.file("qemu.log")), config.lifetime)
                .context("cannot start QEMU")?;
        let channel = Channel::connect(&config.file("agent"), || Ok(process.ended()?.is_none()))
            .with_context(|| {
                format!(
                    "QEMU did not start:\n{}",
                    console::tail(&config.file("qemu.log"))
                )
            })?;
        let console = Console::new(config.file("console"));
        let control = Control {
            name: config.name.clone(),
            channel,
            console,
        };
        Ok(Self {
            config: config.clone(),
            process,
            control,
        })
    }

    /// Waits for the boot and sets the guest up after its kind. Returns the
    /// name of its RDMA device, which is empty for [`Kind::Tcp`].
    ///
    /// # Errors
    /// When the guest does not come up, with the end of its console.
    pub fn wait_ready(&self) -> Result<String> {
        self.control
            .channel
            .wait_for_boot(BOOT_LIMIT)
            .map_err(|error| self.control.explain(error))?;
        let up = format!("/lab/up {} {}/24", self.config.kind, self.config.address);
        let output = self.control.run(&up)?;
        ensure!(
            output.status == 0,
            "guest {} failed to set itself up: {}",
            self.config.name,
            output.stderr_text()
        );
        Ok(output.stdout_text().trim().to_owned())
    }

    /// Resets the machine, as its reset button would, and waits until it is ready again.
    ///
    /// # Errors
    /// As [`Guest::wait_ready`].
    pub fn reboot(&self) -> Result<String> {
        self.control.channel.expect_boot();
        let _lost = self.control.spawn("echo b > /proc/sysrq-trigger")?;
        self.wait_ready()
    }

    /// Switches the machine off and waits for QEMU's end.
    ///
    /// # Errors
    /// When it does not end.
    pub fn power_off(mut self) -> Result<()> {
        let _lost = self.control.spawn("echo o > /proc/sysrq-trigger")?;
        match self.process.wait_for_exit(COMMAND_LIMIT)? {
            Some(_) => Ok(()),
            None => bail!("guest {} does not power off", self.config.name),
        }
    }

    /// Ends QEMU at once, as if the power failed.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// What it was started with.
    #[must_use]
    pub fn config(&self) -> &GuestConfig {
        &self.config
    }

    /// QEMU's process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }
}

impl std::ops::Deref for Guest {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
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
        channel.wait_for_boot(BOOT_LIMIT)?;
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
        self.run_for(command, COMMAND_LIMIT)
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
        let output = running.wait(COMMAND_LIMIT)?;
        ensure!(
            output.status == 0,
            "guest {}: {path}: {}",
            self.name,
            output.stderr_text()
        );
        Ok(())
    }

    /// Waits until a server that was just started is ready for its client; says
    /// how that showed, in one word of [`crate::agent::settled::Settled`].
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn wait_settled(&self, server: &Running) -> Result<String> {
        let group = server.wait_started(COMMAND_LIMIT)?;
        Ok(self
            .check(&format!("/lab/agent settled {group}"))?
            .trim()
            .to_owned())
    }

    /// Waits until a server whose client has ended is gone, which is true, or
    /// sits there as if for the next client, which is false.
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn wait_finished(&self, server: &Running) -> Result<bool> {
        let group = server.wait_started(COMMAND_LIMIT)?;
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
            .map_err(|error| self.explain(error))?;
        Ok(Running::new(
            self.channel.clone(),
            shared,
            self.name.clone(),
            self.console.clone(),
        ))
    }

    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        error.context(format!(
            "guest {}; its console ends with:\n{}",
            self.name,
            self.console.tail()
        ))
    }
}
