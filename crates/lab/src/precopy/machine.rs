//! One of the two QEMUs of a migration.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use vrdma_migration::qmp::Monitor;

use super::{boot, monitor, processor_time};
use crate::image::{Accelerator, Image, qemu};
use crate::process::{Lifetime, Supervised};

/// Longest time from power-on to a guest that writes.
const BOOT_LIMIT: Duration = Duration::from_secs(30);

/// The end of the migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// The source: its guest runs.
    No,
    /// The destination: it waits for a guest.
    Yes,
}

/// A QEMU to start.
#[derive(Debug, Clone, Copy)]
pub struct MachineConfig<'a> {
    /// Name of its files in the folder.
    pub name: &'a str,
    /// Folder of its sockets and logs.
    pub folder: &'a Path,
    /// Its memory, as an `-object` with the id `ram`.
    pub memory: &'a str,
    /// Bytes of that memory.
    pub bytes: u64,
    /// The end of the migration.
    pub waits: Waits,
}

/// A QEMU under control; dropping it ends it.
#[derive(Debug)]
pub struct Machine {
    /// Its QMP socket.
    pub monitor: Monitor,
    pub(super) process: Supervised,
    folder: PathBuf,
    name: String,
    bytes: u64,
    /// The thread of its virtual processor.
    guest: u64,
}

impl Machine {
    /// Starts a QEMU with the boot sector, by a command that `enter` adapts to the place where it is to run.
    ///
    /// # Errors
    /// When it does not start, with its messages.
    pub fn start(config: &MachineConfig<'_>, enter: &dyn Fn(&Command) -> Command) -> Result<Self> {
        let log = config.file("log");
        let command = enter(&config.command()?);
        let mut process = Supervised::spawn(&command, Some(&log), Lifetime::Owned)?;
        let socket = config.file("qmp");
        let mut monitor = monitor::greet(&socket, || Ok(process.ended()?.is_none()))
            .with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        let processors = monitor.execute("query-cpus-fast", json!({}))?;
        let guest = processors[0]["thread-id"].as_u64();
        Ok(Self {
            monitor,
            process,
            folder: config.folder.to_owned(),
            name: config.name.to_owned(),
            bytes: config.bytes,
            guest: guest.context("QEMU tells of no processor")?,
        })
    }

    /// Waits until the boot sector has written everywhere.
    ///
    /// # Errors
    /// When it does not.
    pub fn wait_until_it_writes(&mut self) -> Result<()> {
        let socket = self.file("serial");
        let process = &mut self.process;
        let mut serial = monitor::connect(&socket, &mut || Ok(process.ended()?.is_none()))?;
        serial.set_read_timeout(Some(BOOT_LIMIT))?;
        let written = serial.read_exact(&mut [0]);
        written.context("the boot sector does not run")
    }

    /// Writes all memory to a file.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn dump(&mut self) -> Result<PathBuf> {
        let path = self.file("memory");
        let arguments = json!({ "val": 0, "size": self.bytes, "filename": path });
        self.monitor.execute("pmemsave", arguments)?;
        Ok(path)
    }

    /// The messages of QEMU.
    #[must_use]
    pub fn said(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Its processor time so far, without its guest's.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        let all = processor_time(self.process.id(), None)?;
        let guest = processor_time(self.process.id(), Some(self.guest))?;
        Ok(all.saturating_sub(guest))
    }

    pub(super) fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }
}

impl MachineConfig<'_> {
    fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }

    fn command(&self) -> Result<Command> {
        let image = Image::ensure()?;
        let boot = self.file("boot");
        fs::write(&boot, boot::disk())?;
        let mut command = qemu(&image);
        command.args([
            "-M",
            "q35,memory-backend=ram",
            "-nodefaults",
            "-display",
            "none",
        ]);
        command.args(Accelerator::choose(&image)?.arguments());
        command.arg("-m").arg(format!("{}M", self.bytes >> 20));
        command.args(["-object", self.memory]);
        command.args(["-device", "virtio-blk-pci,drive=boot"]);
        let drive = format!(
            "file={},if=none,id=boot,format=raw,readonly=on",
            boot.display()
        );
        command.arg("-drive").arg(drive);
        for (option, kind) in [("-qmp", "qmp"), ("-serial", "serial")] {
            let socket = self.file(kind);
            command
                .arg(option)
                .arg(format!("unix:{},server=on,wait=off", socket.display()));
        }
        if self.waits == Waits::Yes {
            command.args(["-S", "-incoming", "defer"]);
        }
        Ok(command)
    }
}
