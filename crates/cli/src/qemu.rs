//! The QEMU options that give a VM an adapter.
//!
//! ```text
//!   slot 5, function 0: vmxnet3        ── stream socket ──► NAME.ethernet
//!   slot 5, function 1: vfio-user-pci  ── vfio-user ──────► NAME.vfio-user
//!   memory: one memfd, shared                               the daemon maps it
//! ```
//!
//! The guest's driver pairs the PVRDMA function with the vmxnet3 in function 0 of its slot (Linux
//! `pvrdma_pci_probe`), so the two always come together. Memory that is not shared reads as zeros in
//! the daemon.

pub(crate) mod libvirt;

use std::fmt;
use std::num::NonZeroU64;
use std::path::Path;
use std::str::FromStr;

use serde_json::json;
use vrdma_api::Adapter;

use crate::failure::Failure;

/// One option and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QemuOption {
    pub(crate) flag: &'static str,
    pub(crate) value: String,
}

/// A VM's memory as QEMU takes it: a number and a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemorySize {
    count: NonZeroU64,
    unit: char,
}

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a memory size: write a number and K, M, G or T, such as 512M or 2G"
            )
        };
        let unit = text
            .chars()
            .next_back()
            .filter(|unit| "KMGT".contains(*unit))
            .ok_or_else(wrong)?;
        let digits = &text[..text.len() - 1];
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        Ok(Self {
            count: digits.parse().map_err(|_| wrong())?,
            unit,
        })
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, self.unit)
    }
}

/// A PCI slot of the root bus. Slot 0 belongs to the host bridge, 31 to the q35's own devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(u8);

impl Slot {
    /// The address of one of the slot's functions: QEMU reads both numbers as hexadecimal.
    fn function(self, function: u8) -> String {
        format!("{:x}.{function:x}", self.0)
    }
}

impl FromStr for Slot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(slot @ 1..=30) => Ok(Self(slot)),
            _ => Err(format!(
                "{text:?} is not a PCI slot: use a number from 1 to 30"
            )),
        }
    }
}

/// All options for an adapter; without `memory`, the VM's own memory must be shared.
pub(crate) fn options(
    adapter: &Adapter,
    memory: Option<MemorySize>,
    slot: Slot,
) -> Vec<QemuOption> {
    let mut options = memory.map(shared_memory).unwrap_or_default();
    options.extend(ethernet(adapter, slot));
    options.push(rdma(adapter, slot));
    options
}

fn option(flag: &'static str, value: impl fmt::Display) -> QemuOption {
    QemuOption {
        flag,
        value: value.to_string(),
    }
}

fn shared_memory(size: MemorySize) -> Vec<QemuOption> {
    vec![
        option("-m", size),
        option(
            "-object",
            format!("memory-backend-memfd,id=vrdma-memory,size={size},share=on"),
        ),
        option("-machine", "memory-backend=vrdma-memory"),
    ]
}

/// The network card's options, as JSON: in QEMU's own notation a comma in a path would end it.
fn ethernet(adapter: &Adapter, slot: Slot) -> [QemuOption; 2] {
    let id = format!("vrdma-{}", adapter.name);
    let socket = json!({ "type": "unix", "path": adapter.ethernet_socket });
    // QEMU connects again, since the daemon may restart.
    let netdev = json!({
        "type": "stream", "id": id, "server": false, "reconnect-ms": 200, "addr": socket,
    });
    let (mac, function) = (adapter.mac, slot.function(0));
    let card = format!("vmxnet3,netdev={id},mac={mac},addr={function},multifunction=on");
    [option("-netdev", netdev), option("-device", card)]
}

fn rdma(adapter: &Adapter, slot: Slot) -> QemuOption {
    let socket = json!({ "type": "unix", "path": adapter.vfio_user_socket });
    option(
        "-device",
        json!({ "driver": "vfio-user-pci", "addr": slot.function(1), "socket": socket }),
    )
}

/// An additional QMP socket.
pub(crate) fn monitor(path: &Path) -> QemuOption {
    // In QEMU's own notation two commas stand for one.
    let path = path.display().to_string().replace(',', ",,");
    option("-qmp", format!("unix:{path},server=on,wait=off"))
}

/// The option to wait for a VM that arrives by migration.
pub(crate) fn incoming() -> QemuOption {
    option("-incoming", "defer")
}

/// One option a line, for `$(...)`: the shell splits at blanks and does not interpret quotes.
pub(crate) fn plain(options: &[QemuOption]) -> Result<String, Failure> {
    let splits = |c: char| c.is_whitespace() || matches!(c, '*' | '?' | '\\');
    if let Some(option) = options.iter().find(|option| option.value.contains(splits)) {
        return Err(Failure::new(format!(
            "a shell would split or expand {}; use --quote or --json, or a run folder without such characters",
            option.value
        )));
    }
    let lines: Vec<_> = options
        .iter()
        .map(|option| format!("{} {}", option.flag, option.value))
        .collect();
    Ok(lines.join("\n"))
}

/// One option a line, quoted, for a script.
pub(crate) fn quoted(options: &[QemuOption]) -> String {
    let lines: Vec<_> = options
        .iter()
        .map(|option| format!("{} {}", option.flag, quote(&option.value)))
        .collect();
    lines.join(" \\\n")
}

fn quote(word: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_./=,:".contains(c);
    if word.chars().all(is_safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
