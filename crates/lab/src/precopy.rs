//! Migrates the memory of a VM between two QEMUs by QEMU's own migration, and measures the cost.
//!
//! ```text
//!   source: a guest that writes all the time              destination: stays stopped
//!      `--- migrate URI: all pages, then those written since, again and again ---^
//! ```
//!
//! The guest is a boot sector, see [`boot`]. QEMU's RDMA needs verbs in the environment of both QEMUs, which the caller
//! provides.

mod boot;
mod machine;
mod monitor;
mod placing;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

pub use machine::{Machine, MachineConfig, Waits};
pub use placing::{Placing, Relays};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// QEMU's value for no limit: the guest must not write faster than its memory is sent.
const UNLIMITED: u64 = 0;

/// Unit of times in `/proc/PID/stat`, the same on every Linux (USER_HZ).
const TICKS_A_SECOND: u64 = 100;

/// How the memory is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The migration URIs of the source's QEMU and the destination's.
    pub uris: [String; 2],
    /// Parallel streams, if not QEMU's single one.
    pub channels: Option<u8>,
    /// Whether QEMU registers all memory at once, for `rdma:`.
    pub pins_all: bool,
    /// Longest time of the migration.
    pub limit: Duration,
}

/// What a migration cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Pages that were sent, including those of zeros.
    pub pages: u64,
    /// Time from the command to the end.
    pub total: Duration,
    /// Downtime as QEMU counts it.
    pub downtime: Duration,
    /// Processor time of the source's QEMU without its guest's.
    pub source: Duration,
    /// Processor time of the destination's QEMU, whose guest stands still.
    pub destination: Duration,
}

/// Migrates. `passed` is called with each pass over the memory that begins.
///
/// # Errors
/// When either QEMU fails, or it takes too long, with QEMU's messages.
pub fn migrate(
    [source, destination]: [&mut Machine; 2],
    transfer: &Transfer,
    passed: impl FnMut(u64) -> Result<()>,
) -> Result<Cost> {
    let [from, to] = transfer.uris.each_ref().map(|uri| json!({ "uri": uri }));
    for machine in [&mut *source, &mut *destination] {
        set_up(machine, transfer)?;
    }
    let before = [source.processor_time()?, destination.processor_time()?];
    let incoming = &mut destination.monitor;
    incoming.execute("migrate-incoming", to)?;
    source.monitor.execute("migrate", from)?;
    let limit = transfer.limit;
    monitor::wait_for_migration(&mut source.monitor, limit, passed).context("source")?;
    let incoming = &mut destination.monitor;
    monitor::wait_for_migration(incoming, limit, |_| Ok(())).context("destination")?;
    let after = [source.processor_time()?, destination.processor_time()?];
    let told = source.monitor.execute("query-migrate", json!({}))?;
    let number = |value: &serde_json::Value| value.as_u64().context("QEMU tells no number");
    Ok(Cost {
        pages: number(&told["ram"]["normal"])? + number(&told["ram"]["duplicate"])?,
        total: Duration::from_millis(number(&told["total-time"])?),
        downtime: Duration::from_millis(number(&told["downtime"])?),
        source: after[0].saturating_sub(before[0]),
        destination: after[1].saturating_sub(before[1]),
    })
}

fn set_up(machine: &mut Machine, transfer: &Transfer) -> Result<()> {
    let mut capabilities = Vec::new();
    let mut parameters = json!({ "max-bandwidth": UNLIMITED });
    if transfer.pins_all {
        capabilities.push(json!({ "capability": "rdma-pin-all", "state": true }));
    }
    if let Some(channels) = transfer.channels {
        capabilities.push(json!({ "capability": "multifd", "state": true }));
        parameters["multifd-channels"] = channels.into();
    }
    let monitor = &mut machine.monitor;
    let capabilities = json!({ "capabilities": capabilities });
    monitor.execute("migrate-set-capabilities", capabilities)?;
    monitor.execute("migrate-set-parameters", parameters)?;
    Ok(())
}

/// Makes a folder that holds hundreds of megabytes without using a disk.
///
/// # Errors
/// When it cannot be made.
pub fn memory_folder() -> Result<tempfile::TempDir> {
    let shared = Path::new("/dev/shm");
    let parent = match shared.is_dir() {
        true => shared.to_owned(),
        false => std::env::temp_dir(),
    };
    let folder = tempfile::Builder::new()
        .prefix("vrdma-lab-")
        .tempdir_in(parent)?;
    Ok(folder)
}

/// Makes a file of random bytes, of which QEMU cannot leave any page out.
///
/// # Errors
/// When there is no room for it.
pub fn random_memory(folder: &Path, bytes: u64) -> Result<PathBuf> {
    let path = folder.join("random");
    let mut source = File::open("/dev/urandom")?.take(bytes);
    let copied = io::copy(&mut source, &mut File::create(&path)?);
    copied.with_context(|| format!("cannot fill {}", path.display()))?;
    Ok(path)
}

/// User and system time of a process so far, including its ended threads; or of one thread.
///
/// # Errors
/// When there is no such process or thread.
pub fn processor_time(process: u32, thread: Option<u64>) -> Result<Duration> {
    let path = match thread {
        None => format!("/proc/{process}/stat"),
        Some(thread) => format!("/proc/{process}/task/{thread}/stat"),
    };
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    ticks(&text).map(|ticks| Duration::from_millis(ticks * 1000 / TICKS_A_SECOND))
}

/// The sum of fields 14 and 15 (proc_pid_stat(5)); the name before them may have spaces and parentheses.
fn ticks(stat: &str) -> Result<u64> {
    let (_, fields) = stat.rsplit_once(')').context("no process's stat")?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || -> Result<u64> { Ok(fields.next().context("a short stat")?.parse()?) };
    Ok(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "42 (a) (b c) S 1 42 42 0 -1 4194560 9 0 0 0 700 41 0 0 20 0 9 0 5 6 7";
        assert_eq!(ticks(stat).unwrap(), 741);
        assert!(ticks("42 (a) S 1").is_err());
    }

    #[test]
    fn this_process_has_used_some_time() {
        let own = std::process::id();
        let thread = processor_time(own, Some(own.into())).unwrap();
        assert!(thread <= processor_time(own, None).unwrap());
    }
}
