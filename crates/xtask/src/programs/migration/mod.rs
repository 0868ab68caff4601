//! QEMU's `migrate rdma:` between two QEMUs of this host, each on an adapter of its own.
//!
//! ```text
//!   source: memory = a file of random bytes,            destination: memory of its own,
//!           a guest that writes all the time                         stays stopped
//!      `--- migrate rdma:ADDRESS:PORT: pages by RDMA WRITE ------------^
//!   then, with both stopped, every byte of both memories must be the same
//! ```
//!
//! Told besides: how often the daemon's threads went to sleep. The first pass sends all pages, neighbours
//! together, and agrees on keys for each MiB. Later passes send what was written since: pages here and there,
//! one by one, and QEMU waits for one before it sends the next of the same MiB. The shard looks on between them: on
//! an idle machine with two processors it slept 0.03 to 0.6 times for each. As that depends on what else the machine
//! does, no limit is set.

mod boot;
mod machine;
mod monitor;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use vrdma_lab::pair::Side;

use super::stage::Hosts;
use machine::Machine;

const PORT: u16 = 4444;

const MEMORY_BYTES: u64 = 256 << 20;

const PAGE_BYTES: u64 = 4096;

/// As QEMU counts: it is at work on the first until it tells of this one.
const SCATTERED_PASS: u64 = 2;

/// From power to a guest that writes.
const BOOT_LIMIT: Duration = Duration::from_secs(30);

/// Of the migration itself, which takes a second or two on an idle machine.
const LIMIT: Duration = Duration::from_secs(40);

/// Bytes a second, which is more than there are: the guest's writing must not win.
const BANDWIDTH: u64 = 100 << 30;

/// Bytes that are compared at a time.
const CHUNK: usize = 1 << 20;

/// How the source's memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Pages of its own, copied from the file when written.
    Private,
    /// The file's pages.
    Shared,
}

/// Rows by name.
pub(super) const ROWS: &[(&str, Memory)] = &[
    ("QEMU migrate rdma: private memory", Memory::Private),
    ("QEMU migrate rdma: memory in a file", Memory::Shared),
];

/// Migrates a running guest and compares both memories.
pub(super) fn check(stage: &Hosts, memory: Memory) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("vrdma-lab-")
        .tempdir_in(memory_folder())?;
    let folder = folder.path();
    let random = folder.join("random");
    let mut bytes = File::open("/dev/urandom")?.take(MEMORY_BYTES);
    io::copy(&mut bytes, &mut File::create(&random)?)?;
    let share = if memory == Memory::Shared {
        "on"
    } else {
        "off"
    };
    let random = random.display();
    let filled =
        format!("memory-backend-file,id=ram,size={MEMORY_BYTES},mem-path={random},share={share}");
    let own = format!("memory-backend-ram,id=ram,size={MEMORY_BYTES}");
    let waiting = ["-S", "-incoming", "defer"];
    let mut destination = Machine::start(stage, Side::B, folder, &own, &waiting)?;
    let mut source = Machine::start(stage, Side::A, folder, &filled, &[])?;
    source.wait_until_it_writes()?;
    let address = json!({ "uri": format!("rdma:{}:{PORT}", stage.address(Side::B)) });
    let daemon = stage.daemon().process_id();
    let before = sleeps(daemon)?;
    let mut first = None;
    let passed = |pass| {
        if pass == SCATTERED_PASS {
            first = Some(sleeps(daemon)?);
        }
        Ok(())
    };
    migrate(&mut source, &mut destination, &address, passed)
        .with_context(|| format!("{}{}", source.said(), destination.said()))?;
    let after = sleeps(daemon)?;
    let first = first.context("QEMU told of no second pass")?;
    let told = source.monitor.execute("query-migrate", json!({}))?;
    let pages = told["ram"]["normal"]
        .as_u64()
        .context("QEMU counts pages")?;
    let scattered = pages.saturating_sub(MEMORY_BYTES / PAGE_BYTES);
    println!(
        "{pages} pages in {} ms; the daemon slept {} times in the first pass, and {} for {scattered} scattered pages",
        told["total-time"],
        first - before,
        after - first
    );
    same(&source.dump()?, &destination.dump()?)
}

fn migrate(
    source: &mut Machine,
    destination: &mut Machine,
    address: &serde_json::Value,
    passed: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    destination
        .monitor
        .execute("migrate-incoming", address.clone())?;
    let bandwidth = json!({ "max-bandwidth": BANDWIDTH });
    source
        .monitor
        .execute("migrate-set-parameters", bandwidth)?;
    source.monitor.execute("migrate", address.clone())?;
    monitor::wait_for_migration(&mut source.monitor, LIMIT, passed).context("source")?;
    monitor::wait_for_migration(&mut destination.monitor, LIMIT, |_| Ok(())).context("destination")
}

/// How often the threads of a process went to sleep by themselves (proc_pid_status(5)).
fn sleeps(process: u32) -> Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let status = std::fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += count.map_or(Ok(0), |count| count.trim().parse::<u64>())?;
    }
    Ok(sum)
}

/// Where hundreds of megabytes need no disk.
fn memory_folder() -> PathBuf {
    let shared = Path::new("/dev/shm");
    match shared.is_dir() {
        true => shared.to_owned(),
        false => std::env::temp_dir(),
    }
}

fn same(source: &Path, destination: &Path) -> Result<()> {
    let [mut a, mut b] = [File::open(source)?, File::open(destination)?];
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    for at in (0..MEMORY_BYTES).step_by(CHUNK) {
        a.read_exact(&mut left)?;
        b.read_exact(&mut right)?;
        let differs = left.iter().zip(&right).position(|(a, b)| a != b);
        if let Some(offset) = differs {
            anyhow::bail!("the memories differ at {:#x}", at + offset as u64);
        }
    }
    ensure!(
        a.read(&mut left)? == 0,
        "the memory is larger than it was made"
    );
    Ok(())
}
