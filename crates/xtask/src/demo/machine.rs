//! What the figures were measured on.

use std::path::Path;
use std::{fmt, fs, thread};

use anyhow::{Context, Result};
use serde::Serialize;
use vrdma_lab::image::{Accelerator, Image, qemu};

/// Above this share of its cores at work a machine has something else to do.
const BUSY_SHARE: f64 = 0.3;

/// Facts about host and guests.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    kernel: String,
    accelerator: String,
    qemu: String,
    guest_kernel: String,
    /// Runnable processes before anything of ours ran, averaged over a minute.
    load_before: f64,
}

impl Machine {
    pub(crate) fn look(image: &Image) -> Result<Self> {
        Ok(Self {
            cores: cores(),
            processor: processor(),
            kernel: read("/proc/sys/kernel/osrelease"),
            accelerator: Accelerator::choose(image)?.to_string(),
            qemu: qemu_version(image)?,
            guest_kernel: guest_kernel(image),
            load_before: load(),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} cores of {}, Linux {}; QEMU {} ({}), guests of one processor with Linux {}.",
            self.cores, self.processor, self.kernel, self.qemu, self.accelerator, self.guest_kernel
        )
    }
}

/// Tells a person that the figures are not worth much: whoever runs beside a guest delays it.
pub(crate) fn warn_when_busy() {
    let (load, cores) = (load(), cores());
    if load > BUSY_SHARE * cores as f64 {
        eprintln!(
            "other programs are busy (load {load} on {cores} cores): the figures will show that, and ratios may be off either way"
        );
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn load() -> f64 {
    let averages = read("/proc/loadavg");
    averages
        .split(' ')
        .next()
        .and_then(|first| first.parse().ok())
        .unwrap_or(0.0)
}

fn processor() -> String {
    let info = read("/proc/cpuinfo");
    let line = info.lines().find(|line| line.starts_with("model name"));
    let name = line
        .and_then(|line| line.split_once(':'))
        .map(|(_, name)| name.trim());
    name.unwrap_or("an unnamed processor").to_owned()
}

/// `QEMU emulator version 11.0.0 (Debian ...)`
fn qemu_version(image: &Image) -> Result<String> {
    let output = qemu(image)
        .arg("--version")
        .output()
        .context("cannot start QEMU")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text
        .split_whitespace()
        .nth(3)
        .context("QEMU does not say its version")?;
    Ok(version.to_owned())
}

/// The image has modules for one kernel.
fn guest_kernel(image: &Image) -> String {
    let modules = image.folder().join("root/lib/modules");
    let names = fs::read_dir(modules).into_iter().flatten().flatten();
    let names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.join(" ")
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}
