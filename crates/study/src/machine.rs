//! The machine that the figures were measured on, and whether it was busy with other things.

use std::path::Path;
use std::time::Duration;
use std::{fmt, fs, thread};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use vrdma_lab::image::{Accelerator, Image, qemu};

/// Share of busy processors above which the machine is busy with other things.
pub const BUSY_SHARE: f64 = 0.3;

/// How long the processors are watched before a turn.
const WATCHED: Duration = Duration::from_millis(250);

/// Facts about host and guests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Number of processors.
    pub cores: usize,
    /// Their name.
    pub processor: String,
    /// Memory in GiB.
    pub memory_gib: u64,
    /// The host's kernel.
    pub kernel: String,
    /// `kvm` or `tcg`, or what the lab calls them.
    pub accelerator: String,
    /// QEMU's version.
    pub qemu: String,
    /// The kernel of the image.
    pub guest_kernel: String,
    /// Version of vrdma.
    pub vrdma: String,
    /// Tools on the host: name and version.
    pub tools: Vec<(String, String)>,
}

/// Debian's packages of the tools.
const PACKAGES: &[&str] = &["perftest", "qperf", "openmpi-bin", "libibverbs1"];

impl Machine {
    /// Examines this machine.
    ///
    /// # Errors
    /// When QEMU does not start.
    pub fn look(image: &Image) -> Result<Self> {
        Ok(Self {
            cores: cores(),
            processor: processor(),
            memory_gib: memory_gib(),
            kernel: read("/proc/sys/kernel/osrelease"),
            accelerator: Accelerator::choose(image)?.to_string(),
            qemu: qemu_version(image)?,
            guest_kernel: guest_kernel(image),
            vrdma: env!("CARGO_PKG_VERSION").to_owned(),
            tools: tools(),
        })
    }

    /// The first difference that makes figures of the other machine incomparable with this one's.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let facts = [
            (self.cores.to_string(), other.cores.to_string(), "cores"),
            (
                self.processor.clone(),
                other.processor.clone(),
                "as processor",
            ),
            (
                self.memory_gib.to_string(),
                other.memory_gib.to_string(),
                "GiB of memory",
            ),
            (
                self.accelerator.clone(),
                other.accelerator.clone(),
                "for guests",
            ),
        ];
        let differing = facts.into_iter().find(|(own, others, _)| own != others);
        differing.map(|(own, others, what)| format!("{own} {what} there, {others} here"))
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cores of {}, {} GiB, Linux {}; QEMU {} ({}), guests of one processor with Linux {}; vrdma {}",
            self.cores,
            self.processor,
            self.memory_gib,
            self.kernel,
            self.qemu,
            self.accelerator,
            self.guest_kernel,
            self.vrdma
        )
    }
}

/// Number of processors of this machine.
#[must_use]
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Share of the processors that is busy for a moment, from 0 to 1; time that the hypervisor takes counts too.
#[must_use]
pub fn busy_share() -> f64 {
    let before = ticks();
    thread::sleep(WATCHED);
    share(before, ticks())
}

/// All ticks and the idle ones.
fn ticks() -> (u64, u64) {
    parse_ticks(&read("/proc/stat"))
}

/// `cpu user nice system idle iowait irq softirq steal guest guest_nice`; the last two are in `user` already.
fn parse_ticks(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|word| word.parse().ok())
        .collect();
    let idle = numbers.iter().skip(3).take(2).sum();
    (numbers.iter().sum(), idle)
}

fn share(before: (u64, u64), after: (u64, u64)) -> f64 {
    let all = after.0.saturating_sub(before.0);
    let idle = after.1.saturating_sub(before.1);
    match all {
        0 => 0.0,
        all => 1.0 - idle.min(all) as f64 / all as f64,
    }
}

fn processor() -> String {
    let info = read("/proc/cpuinfo");
    let line = info.lines().find(|line| line.starts_with("model name"));
    let name = line
        .and_then(|line| line.split_once(':'))
        .map(|(_, name)| name.trim());
    name.unwrap_or("an unnamed processor").to_owned()
}

fn memory_gib() -> u64 {
    let info = read("/proc/meminfo");
    let kib = info
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse::<u64>().ok());
    kib.unwrap_or(0) >> 20
}

/// Memory that programs could use without swapping, in MiB.
#[must_use]
pub fn available_mib() -> u64 {
    meminfo_kib(&read("/proc/meminfo"), "MemAvailable:") >> 10
}

fn meminfo_kib(info: &str, name: &str) -> u64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0)
}

/// Parses `QEMU emulator version 11.0.0 (Debian ...)`.
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

/// The kernel of the image, which has modules for one kernel.
fn guest_kernel(image: &Image) -> String {
    let names = fs::read_dir(image.root("lib/modules"))
        .into_iter()
        .flatten()
        .flatten();
    let names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.join(" ")
}

/// The versions that dpkg knows; none on other systems.
fn tools() -> Vec<(String, String)> {
    let ask = |package: &&str| {
        let mut dpkg = std::process::Command::new("dpkg-query");
        let output = dpkg
            .args(["-W", "-f", "${Version}", package])
            .output()
            .ok()?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success() && !version.is_empty()).then(|| ((*package).to_owned(), version))
    };
    PACKAGES.iter().filter_map(ask).collect()
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_processors_are_not_busy() {
        let before = parse_ticks("cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1 2");
        let after = parse_ticks("cpu  40 0 10 130 20 0 0 0 30 0\n");
        assert_eq!(before, (100, 80));
        assert!((share(before, after) - 0.3).abs() < 1e-9);
        assert_eq!(share(after, before), 0.0);
    }

    #[test]
    fn memory_is_read_by_its_name() {
        let info = "MemTotal:  2048 kB\nMemAvailable:  1024 kB\n";
        assert_eq!(meminfo_kib(info, "MemAvailable:"), 1024);
        assert_eq!(meminfo_kib("", "MemAvailable:"), 0);
    }

    #[test]
    fn a_machine_differs_by_what_speed_depends_on() {
        let here = Machine {
            cores: 2,
            ..Machine::default()
        };
        assert_eq!(here.difference(&here), None);
        let kernel = Machine {
            kernel: "7".to_owned(),
            ..here.clone()
        };
        assert_eq!(here.difference(&kernel), None);
        let larger = Machine {
            cores: 64,
            ..here.clone()
        };
        assert_eq!(here.difference(&larger).unwrap(), "2 cores there, 64 here");
    }
}
