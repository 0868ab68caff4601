//! Whether KVM is usable here.
//!
//! A /dev/kvm that opens and creates a VM may still not run a real kernel: some hosts interpret the guest's privileged
//! code in software, which fails at an instruction that it does not know or takes a hundred times as long. So the
//! image's own kernel is booted once, within a time that any real KVM keeps with ease, and the verdict is stored beside
//! the image.

use std::fs::{self, File};
use std::time::Duration;
use std::{fmt, io};

use anyhow::{Context, Result, bail};

use super::{Image, Initramfs, qemu};
use crate::process::{Lifetime, Supervised};

/// `tcg` or `kvm`, to skip the probe.
const ACCELERATOR_VARIABLE: &str = "VRDMA_ACCEL";

/// Longest time for the probe: real KVM boots the kernel in about one second; TCG in about three.
const PROBE_LIMIT: Duration = Duration::from_secs(8);

/// The line that the probe's guest prints.
const ALIVE: &str = "lab: alive";

/// The way in which QEMU runs a guest's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// By the processor.
    Kvm,
    /// By translation, one thread a virtual processor.
    Tcg,
}

impl Accelerator {
    /// QEMU's arguments, with a processor model that has all features that are possible.
    #[must_use]
    pub fn arguments(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Self::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "max"],
        }
    }

    /// Chooses the accelerator for this image on this host, probing it once.
    ///
    /// # Errors
    /// When the variable holds something else, or the probe cannot be started.
    pub fn choose(image: &Image) -> Result<Self> {
        match std::env::var(ACCELERATOR_VARIABLE).as_deref() {
            Ok("kvm") => Ok(Self::Kvm),
            Ok("tcg") => Ok(Self::Tcg),
            Ok(other) if !other.is_empty() => {
                bail!("{ACCELERATOR_VARIABLE} is {other:?}; it may be kvm or tcg")
            }
            _ => Self::probe(image),
        }
    }

    fn probe(image: &Image) -> Result<Self> {
        if File::options()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_err()
        {
            return Ok(Self::Tcg);
        }
        let host = host_identity()?;
        let record = image.folder().join("kvm");
        if let Some(verdict) = recall(&fs::read_to_string(&record).unwrap_or_default(), &host) {
            return Ok(verdict);
        }
        let verdict = boots_under_kvm(image).context("cannot probe KVM")?;
        // If the cache cannot be written, the next start probes again.
        let _ = fs::write(&record, format!("{host}\n{verdict:?}\n"));
        Ok(verdict)
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Kvm => "KVM",
            Self::Tcg => "TCG",
        })
    }
}

/// The record's verdict, if it is about this host.
fn recall(record: &str, host: &str) -> Option<Accelerator> {
    let mut lines = record.lines();
    match (lines.next()? == host, lines.next()?) {
        (true, "Kvm") => Some(Accelerator::Kvm),
        (true, "Tcg") => Some(Accelerator::Tcg),
        _ => None,
    }
}

/// Identifies the host: a cache may be moved to another machine with a home folder.
fn host_identity() -> io::Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let processor = fs::read_to_string("/proc/cpuinfo")?;
    let model = processor
        .lines()
        .find(|line| line.starts_with("model name"))
        .unwrap_or_default();
    Ok(format!("{} {}", release.trim(), model.replace('\t', "")))
}

fn boots_under_kvm(image: &Image) -> Result<Accelerator> {
    let folder = tempfile::tempdir()?;
    let initramfs = folder.path().join("initramfs");
    Initramfs::probe(image)?.write(&initramfs)?;
    let console = folder.path().join("console");
    let mut command = qemu(image);
    command.args(Accelerator::Kvm.arguments());
    command.args([
        "-M",
        "q35",
        "-m",
        "256M",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
    ]);
    command
        .arg("-serial")
        .arg(format!("file:{}", console.display()));
    command
        .arg("-kernel")
        .arg(image.kernel())
        .arg("-initrd")
        .arg(initramfs);
    command.args(["-append", "console=ttyS0 panic=-1"]);
    let mut guest = Supervised::spawn(&command, None, Lifetime::Owned)?;
    guest.wait_for_exit(PROBE_LIMIT)?;
    let alive = fs::read_to_string(console)
        .unwrap_or_default()
        .contains(ALIVE);
    Ok(if alive {
        Accelerator::Kvm
    } else {
        Accelerator::Tcg
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_only_good_on_its_host() {
        assert_eq!(recall("6.1 X\nKvm\n", "6.1 X"), Some(Accelerator::Kvm));
        assert_eq!(recall("6.1 X\nTcg\n", "6.1 X"), Some(Accelerator::Tcg));
        assert_eq!(recall("6.1 X\nKvm\n", "6.2 X"), None);
        assert_eq!(recall("", "6.1 X"), None);
        assert_eq!(recall("6.1 X\nfast\n", "6.1 X"), None);
    }
}
