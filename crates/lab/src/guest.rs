//! A virtual machine that runs commands.
//!
//! ```text
//!  start --> QEMU runs --hello--> agent is up --/lab/up KIND--> ready
//!               ^                                                |
//!               +------------------- reboot ---------------------+
//! ```
//!
//! Calls block, each with a time limit. Errors end with the last lines of the guest's console, since they usually tell
//! why a guest is silent.

mod agent_program;
mod arguments;
mod channel;
mod config;
mod console;
mod control;
mod libvirt;
mod running;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::image::{Accelerator, Image, Initramfs, qemu};
use crate::patience::patient;
use crate::process::Supervised;
use agent_program::agent_program;
use channel::Channel;
pub use config::{Ethernet, GuestConfig, Kind, MAX_SOCKET_PATH, SecondAdapter, check_socket_path};
use console::Console;
pub(crate) use console::tail as log_tail;
pub use control::Control;
pub use running::{Output, Running};

/// How long a guest may take from power-on to its agent, under TCG on a busy host. Both limits are for a usual machine
/// (see [`crate::patience`]).
pub const BOOT_LIMIT: Duration = Duration::from_secs(90);

/// How long a command may take unless told otherwise.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// Ethernet's MTU.
const USUAL_MTU: u16 = 1500;

/// A running guest; dropping it ends its QEMU, unless it is to be kept.
#[derive(Debug)]
pub struct Guest {
    config: GuestConfig,
    process: Supervised,
    control: Control,
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
        let command = match config.libvirt {
            true => libvirt::command(image, accelerator, config)?,
            false => {
                let mut command = qemu(image);
                command.args(arguments::arguments(image, accelerator, config));
                command
            }
        };
        let command = config.placed(&command);
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
        if config.libvirt {
            libvirt::wait_until_created(config)?;
        }
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

    /// Waits for the boot and sets the guest up according to its kind. Returns the name of its RDMA device, which is
    /// empty for [`Kind::Tcp`].
    ///
    /// # Errors
    /// When the guest does not come up, with the end of its console.
    pub fn wait_ready(&self) -> Result<String> {
        self.control
            .channel
            .wait_for_boot(patient(BOOT_LIMIT)?)
            .map_err(|error| self.control.explain(&error))?;
        let GuestConfig {
            kind, address, mtu, ..
        } = &self.config;
        let second = self.config.second.as_ref();
        let second = second.map_or_else(String::new, |second| format!(" {}/24", second.address));
        let up = format!(
            "/lab/up {kind} {address}/24 {}{second}",
            mtu.unwrap_or(USUAL_MTU)
        );
        let output = self.control.run(&up)?;
        ensure!(
            output.status == 0,
            "guest {} failed to set itself up: {}",
            self.config.name,
            output.stderr_text()
        );
        Ok(output.stdout_text().trim().to_owned())
    }

    /// Waits until a guest that has come from another QEMU answers on this one's channel.
    ///
    /// # Errors
    /// When it does not.
    pub fn wait_here(&self, limit: Duration) -> Result<()> {
        self.control.channel.greet()?;
        let waited = self.control.channel.wait_for_boot(limit);
        waited.map_err(|error| self.control.explain(&error))
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
        match self.process.wait_for_exit(patient(COMMAND_LIMIT)?)? {
            Some(_) => Ok(()),
            None => bail!("guest {} does not power off", self.config.name),
        }
    }

    /// Ends QEMU at once, as if the power had failed.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// The handle for what can be done with the guest without owning its process.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The configuration that it was started with.
    #[must_use]
    pub fn config(&self) -> &GuestConfig {
        &self.config
    }

    /// The address at which `virsh` reaches its libvirt, if it has one.
    #[must_use]
    pub fn libvirt(&self) -> Option<String> {
        self.config.libvirt.then(|| libvirt::uri(&self.config))
    }

    /// QEMU's process, or the process that its libvirt ends with.
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
