//! Snapshots: a VM that stands still is saved to two files, its adapter to one and the rest to the other, and restored
//! from them.
//!
//! ```text
//!   save      track ──► QEMU writes the memory ──► the adapter's context ──► both files get their names
//!             the adapter works on, and stands still only while its context is made
//!   restore   file ──► daemon keeps the context ──► QEMU loads the memory ──► PCI configuration
//!                                                            ──► the adapter is restored and activated
//! ```
//!
//! QEMU's file has each page as of the moment at which QEMU reads it. Pages that the adapter writes afterwards are in
//! its context, since it was tracked before. So both files are of one moment, that of the context. The VM stands still
//! before and after, so its disks can be copied meanwhile.

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

/// How often progress is reported, and how long a Ctrl-C may wait.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// What is saved or restored, and the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The adapter.
    pub adapter: Name,
    /// Sockets of its daemon and its QEMU.
    pub sockets: HostSockets,
    /// The adapter's file.
    pub file: PathBuf,
    /// QEMU's file.
    pub memory: PathBuf,
    /// Whether connections go on after restoring, because their other ends go back to the same moment.
    pub keep_connections: bool,
}

/// A snapshot that has been saved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Saved {
    /// Bytes of the adapter's file.
    pub file_bytes: u64,
    /// Bytes of QEMU's file.
    pub memory_bytes: u64,
    /// Records of the adapter.
    pub records: u64,
    /// Pages that the adapter wrote while QEMU wrote its file.
    pub pages: u64,
}

/// An adapter that was restored from a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Restored {
    /// Records of the adapter.
    pub records: u64,
    /// Pages that came with them.
    pub pages: u64,
}

/// Why a snapshot was not saved or not restored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A check before any change failed.
    #[error("{0}")]
    Unfit(String),
    /// Saving failed and was taken back: the adapter works, the VM stands still as before, and files of these names are
    /// as they were.
    #[error("there is no snapshot: {why}; {}", Left(left.as_deref()))]
    NotSaved {
        /// What failed.
        why: String,
        /// What could not be taken back.
        left: Option<String>,
    },
    /// Restoring failed after QEMU had begun to load.
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

/// Connects to the two programs, if the adapter is a VM's and not away.
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

/// Returns QEMU's URI of a file: QEMU has another working folder, and takes text after a comma for options.
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

/// Waits until QEMU has written or read all memory.
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
    // The end of the daemon is reported at once, and not after everything is written.
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
