//! The two QEMUs of a migration.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;
use vrdma_lab::image::{Accelerator, Image, qemu};
use vrdma_lab::pair::Side;
use vrdma_lab::process::{Lifetime, Supervised};
use vrdma_migration::qmp::Monitor;

use super::monitor;
use super::{BOOT_LIMIT, MEMORY_BYTES, boot};
use crate::programs::stage::Hosts;

/// A QEMU under control.
pub(super) struct Machine {
    pub(super) monitor: Monitor,
    process: Supervised,
    folder: PathBuf,
    name: &'static str,
}

impl Machine {
    /// Starts one with the boot sector, and `memory` as its object called `ram`.
    pub(super) fn start(
        stage: &Hosts,
        side: Side,
        folder: &Path,
        memory: &str,
        more: &[&str],
    ) -> Result<Self> {
        let image = Image::ensure()?;
        let name = side.name();
        let boot = folder.join(format!("{name}.boot"));
        std::fs::write(&boot, boot::disk())?;
        let mut command = qemu(&image);
        command.args([
            "-M",
            "q35,memory-backend=ram",
            "-nodefaults",
            "-display",
            "none",
        ]);
        command.args(Accelerator::choose(&image)?.arguments());
        command.arg("-m").arg(format!("{}M", MEMORY_BYTES >> 20));
        command.args(["-object", memory, "-device", "virtio-blk-pci,drive=boot"]);
        let drive = format!(
            "file={},if=none,id=boot,format=raw,readonly=on",
            boot.display()
        );
        command.arg("-drive").arg(drive);
        for (option, kind) in [("-qmp", "qmp"), ("-serial", "serial")] {
            let socket = folder.join(format!("{name}.{kind}"));
            command
                .arg(option)
                .arg(format!("unix:{},server=on,wait=off", socket.display()));
        }
        command.args(more);
        let log = folder.join(format!("{name}.log"));
        let command = stage.command(side, &command);
        let mut process = Supervised::spawn(&command, Some(&log), Lifetime::Owned)?;
        let socket = folder.join(format!("{name}.qmp"));
        let monitor = monitor::greet(&socket, || Ok(process.ended()?.is_none()))
            .with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
        Ok(Self {
            monitor,
            process,
            folder: folder.to_owned(),
            name,
        })
    }

    /// Waits until the boot sector has written everywhere.
    pub(super) fn wait_until_it_writes(&mut self) -> Result<()> {
        let socket = self.folder.join(format!("{}.serial", self.name));
        let process = &mut self.process;
        let mut serial = monitor::connect(&socket, &mut || Ok(process.ended()?.is_none()))?;
        serial.set_read_timeout(Some(BOOT_LIMIT))?;
        let written = serial.read_exact(&mut [0]);
        written.context("the boot sector does not run")
    }

    /// Writes all memory to a file.
    pub(super) fn dump(&mut self) -> Result<PathBuf> {
        let path = self.folder.join(format!("{}.memory", self.name));
        let arguments = json!({ "val": 0, "size": MEMORY_BYTES, "filename": path });
        self.monitor.execute("pmemsave", arguments)?;
        Ok(path)
    }

    /// What QEMU wrote.
    pub(super) fn said(&self) -> String {
        let log = self.folder.join(format!("{}.log", self.name));
        std::fs::read_to_string(log).unwrap_or_default()
    }
}
