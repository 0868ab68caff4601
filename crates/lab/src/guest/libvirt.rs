//! A guest whose QEMU is started by libvirt, as a domain.
//!
//! ```text
//!   unshare ── libvirt.sh ── libvirtd ── QEMU        one of its own for each guest, as on hosts of their own:
//!                  └──────── virsh create            its folders and processes are seen by nobody else
//! ```
//! libvirt makes the machine, its memory and its processors; QEMU gets the rest as arguments, the same as without
//! libvirt.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::arguments::inner_arguments;
use super::config::GuestConfig;
use super::console;
use crate::image::{Accelerator, Image, qemu};
use crate::patience::patient;
use crate::process::POLL;

/// Longest time from QEMU's first answer on, on a usual machine.
const CREATION_LIMIT: Duration = Duration::from_secs(30);

/// The file by which the script tells that the domain is created.
const CREATED: &str = "created";

const SCRIPT: &str = include_str!("libvirt/libvirt.sh");

/// The hook that users are told to install.
const HOOK: &str = include_str!("../../../cli/libvirt/hook");

/// Starts the domain, and ends when the domain does. Killing this command ends QEMU, too.
pub(super) fn command(
    image: &Image,
    accelerator: Accelerator,
    config: &GuestConfig,
) -> Result<Command> {
    ensure!(
        config.verbs.is_none(),
        "guest {}: libvirt starts QEMU without the library that is put in front of its own",
        config.name
    );
    let emulator = config.file("emulator");
    fs::write(&emulator, emulator_script(&qemu(image)))?;
    fs::set_permissions(&emulator, fs::Permissions::from_mode(0o755))?;
    let file = config.file("xml");
    let arguments = inner_arguments(image, config);
    let arguments: Vec<_> = arguments
        .iter()
        .map(|argument| utf8(argument))
        .collect::<Result<_>>()?;
    fs::write(&file, domain(accelerator, config, &emulator, &arguments))?;
    let folder = folder(config);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("hook"), HOOK)?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["sh", "-euc", SCRIPT, "libvirt.sh"]);
    command.arg(&folder).arg(&config.name).arg(&file);
    if config.incoming {
        command.arg("--paused");
    }
    Ok(command)
}

fn folder(config: &GuestConfig) -> PathBuf {
    config.file("libvirt")
}

/// Waits until libvirt has completed the start. QEMU answers before, but libvirt would take a VM that runs by then for
/// paused.
pub(super) fn wait_until_created(config: &GuestConfig) -> Result<()> {
    let deadline = Instant::now() + patient(CREATION_LIMIT)?;
    let created = folder(config).join(CREATED);
    while !created.exists() {
        ensure!(
            Instant::now() < deadline,
            "libvirt does not end the start of guest {}:\n{}",
            config.name,
            console::tail(&config.file("qemu.log"))
        );
        thread::sleep(POLL);
    }
    Ok(())
}

/// The address at which `virsh` reaches a guest's libvirt.
pub(super) fn uri(config: &GuestConfig) -> String {
    let socket = folder(config).join("libvirt-sock");
    format!("qemu+unix:///system?socket={}", socket.display())
}

/// A script that makes QEMU one program, with its variables and arguments.
fn emulator_script(qemu: &Command) -> String {
    let variables = qemu.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy().into_owned();
        Some(format!("{}={} ", name.to_string_lossy(), quoted(&value)))
    });
    let words = [qemu.get_program()].into_iter().chain(qemu.get_args());
    let words = words.map(|word| format!("{} ", quoted(&word.to_string_lossy())));
    let (variables, words): (String, String) = (variables.collect(), words.collect());
    format!("#!/bin/sh\n{variables}exec {words}\"$@\"\n")
}

fn domain(
    accelerator: Accelerator,
    config: &GuestConfig,
    emulator: &Path,
    arguments: &[&str],
) -> String {
    let (kind, processor) = match accelerator {
        Accelerator::Kvm => ("kvm", "host-passthrough"),
        Accelerator::Tcg => ("qemu", "maximum"),
    };
    let arguments = arguments
        .iter()
        .map(|argument| format!("    <qemu:arg value='{}'/>\n", escaped(argument)));
    format!(
        "\
<domain type='{kind}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{name}</name>
  <memory unit='MiB'>{memory}</memory>
  <memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>
  <vcpu>{processors}</vcpu>
  <cpu mode='{processor}'/>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/></features>
  <devices>
    <emulator>{emulator}</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
  <qemu:commandline>
{arguments}  </qemu:commandline>
</domain>
",
        name = config.name,
        memory = config.memory_mib,
        processors = config.processors,
        emulator = escaped(&emulator.display().to_string()),
        arguments = arguments.collect::<String>(),
    )
}

fn utf8(argument: &OsStr) -> Result<&str> {
    let text = argument.to_str();
    text.with_context(|| format!("libvirt takes no {}: it is no UTF-8", argument.display()))
}

/// Escapes for an attribute in single quotes, or for text.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('\'', "&apos;")
}

/// Quotes one word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
