//! The QEMU that is to run the guests.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::Check;

/// The first release whose `vfio-user-pci` works with the stock driver.
const MAJOR_MIN: u32 = 11;

const MEND: &str = "install QEMU 11 or later (Debian 13 has it in trixie-backports), or name another program with --qemu";

pub(super) fn checks(program: &Path) -> Vec<Check> {
    let version = match said(program, &["--version"]) {
        Ok(output) => judge_version(program, &text(&output)),
        Err(check) => return vec![check],
    };
    let device = said(program, &["-device", "vfio-user-pci,help"]);
    let device = device.map_or_else(
        |check| check,
        |output| judge_device(program, output.status.success()),
    );
    vec![version, device]
}

fn said(program: &Path, arguments: &[&str]) -> Result<Output, Check> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    output.map_err(|error| absent(program, error.kind(), &error.to_string()))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) fn absent(program: &Path, kind: ErrorKind, error: &str) -> Check {
    let shown = program.display();
    match kind {
        ErrorKind::NotFound => Check::fail("QEMU", format!("there is no {shown}; {MEND}")),
        _ => Check::fail("QEMU", format!("cannot run {shown}: {error}; {MEND}")),
    }
}

pub(super) fn judge_version(program: &Path, said: &str) -> Check {
    let shown = program.display();
    match version(said) {
        None => Check::fail(
            "QEMU",
            format!("{shown} does not say which version it is; {MEND}"),
        ),
        Some((major, full)) if major < MAJOR_MIN => Check::fail(
            "QEMU",
            format!("{shown} is version {full} and has no usable vfio-user-pci; {MEND}"),
        ),
        Some((_, full)) => Check::ok("QEMU", format!("{shown} is version {full}")),
    }
}

/// The major number and the full version in "QEMU emulator version 11.1.3 (Debian ...)".
fn version(said: &str) -> Option<(u32, &str)> {
    let full = said
        .lines()
        .next()?
        .split_once("version ")?
        .1
        .split_whitespace()
        .next()?;
    let major = full.split('.').next()?.parse().ok()?;
    Some((major, full))
}

pub(super) fn judge_device(program: &Path, known: bool) -> Check {
    let shown = program.display();
    match known {
        true => Check::ok("vfio-user", format!("{shown} has the device vfio-user-pci")),
        false => Check::fail(
            "vfio-user",
            format!("{shown} has no device vfio-user-pci; {MEND}"),
        ),
    }
}
