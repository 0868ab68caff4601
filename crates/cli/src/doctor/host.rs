//! The kernel and what it permits.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, getrlimit};

use super::Check;

const KVM: &str = "/dev/kvm";

/// The result of trying KVM.
pub(super) enum Kvm {
    /// A QEMU ran with it.
    Works,
    /// The device cannot be opened.
    Closed(io::Error),
    /// The device opens and QEMU fails with it: typical of containers and nested VMs.
    Broken,
    /// The device opens and there is no QEMU to try it with.
    Untried,
}

/// Tries KVM with QEMU itself: in many containers the device opens but no VM starts.
pub(super) fn kvm(qemu: &Path) -> Check {
    let device = File::options().read(true).write(true).open(KVM);
    judge_kvm(match device {
        Err(error) => Kvm::Closed(error),
        Ok(_) => match starts(qemu) {
            Ok(true) => Kvm::Works,
            Ok(false) => Kvm::Broken,
            Err(_) => Kvm::Untried,
        },
    })
}

fn starts(qemu: &Path) -> io::Result<bool> {
    let mut machine = Command::new(qemu)
        .args([
            "-accel",
            "kvm",
            "-machine",
            "none",
            "-nodefaults",
            "-display",
            "none",
            "-monitor",
            "stdio",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut monitor) = machine.stdin.take() {
        // If QEMU has ended already, its status tells.
        let _ = monitor.write_all(b"quit\n");
    }
    Ok(machine.wait()?.success())
}

pub(super) fn judge_kvm(kvm: Kvm) -> Check {
    const SLOW: &str = "guests run emulated, many times slower";
    match kvm {
        Kvm::Works => Check::ok("KVM", "QEMU starts a VM with it"),
        Kvm::Untried => Check::warn(
            "KVM",
            format!("{KVM} opens, and without QEMU that is all there is to see"),
        ),
        Kvm::Broken => Check::warn(
            "KVM",
            format!(
                "{KVM} is there and QEMU cannot use it, so {SLOW}; enable (nested) virtualisation"
            ),
        ),
        Kvm::Closed(error) if error.kind() == ErrorKind::PermissionDenied => Check::warn(
            "KVM",
            format!(
                "{KVM} is not yours, so {SLOW}; add yourself to its group: usermod -aG kvm $USER"
            ),
        ),
        Kvm::Closed(error) if error.kind() == ErrorKind::NotFound => Check::warn(
            "KVM",
            format!(
                "there is no {KVM}, so {SLOW}; enable virtualisation and load kvm_intel or kvm_amd"
            ),
        ),
        Kvm::Closed(error) => Check::warn("KVM", format!("cannot open {KVM} ({error}), so {SLOW}")),
    }
}

/// Checks memfds: doorbells and guests' memory are anonymous files that are passed over sockets.
pub(super) fn memory_files() -> Check {
    judge_memory_files(
        memfd_create(
            "vrdma-doctor",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )
        .map(drop)
        .map_err(Into::into),
    )
}

pub(super) fn judge_memory_files(made: io::Result<()>) -> Check {
    match made {
        Ok(()) => Check::ok("kernel", format!("{} makes sealed memory files", release())),
        Err(error) => Check::fail(
            "kernel",
            format!("memfd_create fails ({error}); allow it in the container's seccomp profile"),
        ),
    }
}

/// The device that lets programs with several threads move registered memory into a file.
const USERFAULTFD: &str = "/dev/userfaultfd";
/// Whether other users may create a full userfaultfd without the device.
const UNPRIVILEGED: &str = "/proc/sys/vm/unprivileged_userfaultfd";

/// How far this machine can move registered memory into files.
pub(super) struct Adopting {
    /// Linux's version: mappings are asked for one by one since 6.11.
    pub(super) kernel: (u32, u32),
    /// Whether a program of this user may open a userfaultfd itself.
    pub(super) is_ours: bool,
    /// Whether the daemon lends programs the device.
    pub(super) is_lent: bool,
}

/// Whether registered memory of programs can be moved into a file.
pub(super) fn adopting(is_lent: bool) -> Check {
    let device = File::options().read(true).write(true).open(USERFAULTFD);
    let allowed = std::fs::read_to_string(UNPRIVILEGED).is_ok_and(|value| value.trim() == "1");
    judge_adopting(&Adopting {
        kernel: version(&release()).unwrap_or_default(),
        is_ours: device.is_ok() || allowed,
        is_lent,
    })
}

pub(super) fn judge_adopting(found: &Adopting) -> Check {
    const NAME: &str = "adoption";
    let Adopting {
        kernel: (major, minor),
        is_ours,
        is_lent,
    } = found;
    if (*major, *minor) < (6, 11) {
        let sentence = format!(
            "this kernel is {major}.{minor}, and registered memory is moved into a file that vrdmad maps from 6.11 on; it is reached by system calls, which is slower"
        );
        return Check::warn(NAME, sentence);
    }
    match (is_ours, is_lent) {
        (true, _) => Check::ok(NAME, "programs of yours move registered memory into a file"),
        (_, true) => Check::ok(
            NAME,
            format!(
                "vrdmad lends programs {USERFAULTFD}, by which they move registered memory into a file"
            ),
        ),
        (false, false) => Check::warn(
            NAME,
            format!(
                "only programs of one thread move registered memory into a file; give vrdmad's group {USERFAULTFD} (docs/processes-and-containers.md)"
            ),
        ),
    }
}

/// Parses the version in `Linux 6.12.1-something`.
pub(super) fn version(release: &str) -> Option<(u32, u32)> {
    let numbers = release.split_whitespace().last()?;
    let mut numbers = numbers.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    format!(
        "Linux {}",
        release
            .as_deref()
            .unwrap_or("of unknown release")
            .trim_end()
    )
}

/// QEMU locks guest memory only when told to; this limit then ends QEMU before the guest runs.
pub(super) fn memory_lock() -> Check {
    judge_memory_lock(getrlimit(Resource::Memlock).current)
}

pub(super) fn judge_memory_lock(limit: Option<u64>) -> Check {
    const NEED: &str = "vrdmad locks none, only a QEMU with `-overcommit mem-lock=on` does";
    match limit {
        None => Check::ok("locked memory", format!("unlimited; {NEED}")),
        Some(bytes) => Check::ok(
            "locked memory",
            format!("up to {} KiB here; {NEED}", bytes / 1024),
        ),
    }
}
