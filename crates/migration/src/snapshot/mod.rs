//! Snapshots: a VM that stands still goes into two files, its adapter into one and all else into the other; and back.
//!
//! ```text
//!   save      track ──► QEMU writes the memory ──► the adapter's context ──► both files get their names
//!             the adapter works on, and stands still only while its context is made
//!   restore   file ──► daemon keeps the context ──► QEMU loads the memory ──► PCI configuration
//!                                                            ──► the adapter is restored and activated
//! ```
//!
//! QEMU's file is of the moment at which it reads each page. What the adapter writes afterwards is in its context, since
//! it is tracked from before on. So both are of one moment, that of the context. The VM stands still before and after:
//! who takes its disks along does so meanwhile.

pub(crate) mod file;
mod restoring;
mod saving;

use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use vrdma_api::{AdapterKind, Name};

use crate::error::Cause;
use crate::machine::{Machine, Side};
use crate::progress::{MemoryProgress, Progress, Watcher};
use crate::qmp::EventKind;
use crate::{Host, HostSockets, checks};

pub use restoring::restore;
pub use saving::save;
#[cfg(test)]
pub(crate) use saving::save_by;

/// How often the numbers are told, and how long a Ctrl-C waits.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// What goes where, or comes from where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The adapter.
    pub adapter: Name,
    /// Its daemon and its QEMU.
    pub sockets: HostSockets,
    /// The adapter's file.
    pub file: PathBuf,
    /// QEMU's file.
    pub memory: PathBuf,
    /// When it is restored: its connections go on, since their other ends go back to the same moment.
    pub keep_connections: bool,
}

/// A snapshot that there is now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Saved {
    /// Bytes of the adapter's file.
    pub file_bytes: u64,
    /// Bytes of QEMU's.
    pub memory_bytes: u64,
    /// Records of the adapter.
    pub records: u64,
    /// Pages that the adapter wrote while QEMU wrote its file.
    pub pages: u64,
}

/// An adapter that goes on where a snapshot left off.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Restored {
    /// Records of the adapter.
    pub records: u64,
    /// Pages that came with them.
    pub pages: u64,
}

/// Why there is no snapshot, or no VM from it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A check before anything was changed.
    #[error("{0}")]
    Unfit(String),
    /// Taken back: the adapter works, the VM stands still as before, and files of these names are as they were.
    #[error("there is no snapshot: {why}; {}", Left(left.as_deref()))]
    NotSaved {
        /// What failed.
        why: String,
        /// What could not be taken back.
        left: Option<String>,
    },
    /// QEMU has begun to load.
    #[error(
        "the VM was not restored: {0}; start its QEMU anew with -S -incoming defer before the next try"
    )]
    NotRestored(String),
}

struct Left<'a>(Option<&'a str>);

impl std::fmt::Display for Left<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            self.0
                .unwrap_or("the adapter works on, and cont lets the VM run"),
        )
    }
}

impl From<Cause> for SnapshotError {
    fn from(cause: Cause) -> Self {
        Self::Unfit(cause.to_string())
    }
}

/// The two programs, if the adapter is one whose VM can be here.
fn connect(options: &Options) -> Result<Host, Cause> {
    let name = &options.adapter;
    let host = Host::connect(&options.sockets, slice::from_ref(name), Side::Alone)?;
    let adapter = host.first_adapter().look()?;
    if adapter.kind != AdapterKind::Vm {
        return Err(Cause::new(format!(
            "the adapter {name} is of kind {}; there are snapshots of VMs only",
            adapter.kind
        )));
    }
    if adapter.away {
        return Err(Cause::new(format!(
            "the adapter {name} is away: its VM is on another host, which has its addresses; ask the daemon there"
        )));
    }
    Ok(host)
}

fn check_memory(machine: &mut Machine) -> Result<(), Cause> {
    checks::check_shared(&machine.memory_backends()?, "VM")
}

/// QEMU's name of a file: it has another working folder, and takes what follows a comma for options.
fn uri(path: &Path) -> Result<serde_json::Value, Cause> {
    let name = path.display();
    let absolute = std::path::absolute(path)
        .map_err(|error| Cause::new(format!("cannot tell QEMU of {name}: {error}")))?;
    match absolute.to_str() {
        Some(text) if !text.contains(',') => Ok(json!({ "uri": format!("file:{text}") })),
        _ => Err(Cause::new(format!(
            "QEMU does not take {name} as a file: use a name without commas, in UTF-8"
        ))),
    }
}

/// Until QEMU has written or read it all.
fn wait_for_memory(host: &mut Host, watcher: &mut dyn Watcher) -> Result<(), Cause> {
    loop {
        if watcher.is_interrupted() {
            return Err(Cause::new("it was interrupted"));
        }
        let Some(event) = host.machine.next_event(TELL_EVERY)? else {
            tell(host, watcher)?;
            continue;
        };
        let EventKind::Migration(status) = event.kind else {
            continue;
        };
        match status.as_str() {
            "completed" => return Ok(()),
            "failed" => {
                let said = host.machine.migration()?.error_desc;
                let said = said.unwrap_or_else(|| "see its log".to_owned());
                return Err(Cause::new(format!("QEMU failed with the memory: {said}")));
            }
            "cancelled" => return Err(Cause::new("somebody cancelled it at the VM's QEMU")),
            _ => {}
        }
    }
}

fn tell(host: &mut Host, watcher: &mut dyn Watcher) -> Result<(), Cause> {
    // The daemon's end is told of at once, and not when all is written.
    host.first_adapter().look()?;
    let info = host.machine.migration()?;
    watcher.progress(&Progress::Memory(MemoryProgress {
        rounds: info.ram.dirty_sync_count,
        remaining_bytes: info.ram.remaining,
        total_bytes: info.ram.total,
        pages_per_second: info.ram.pages_per_second,
        expected_downtime_ms: None,
    }));
    Ok(())
}
