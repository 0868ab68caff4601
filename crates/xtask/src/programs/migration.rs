//! QEMU's `migrate rdma:` between two QEMUs of this host, each on an adapter of its own.
//!
//! ```text
//!   source: memory = a file of random bytes,            destination: memory of its own,
//!           a guest that writes all the time                         stays stopped
//!      `--- migrate rdma:ADDRESS:PORT: pages by RDMA WRITE ------------^
//!   then, with both stopped, every byte of both memories must be the same
//! ```
//!
//! It also prints how often the daemon's threads went to sleep. The first pass sends all pages, neighbours together,
//! and agrees on keys for each MiB. Later passes send what was written since: scattered pages, one by one, and QEMU
//! waits for one before it sends the next of the same MiB. The shard polls between them: on an idle machine with two
//! processors it slept 0.03 to 0.6 times for each. As that depends on the load of the machine, no limit is set.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vrdma_lab::pair::Side;
use vrdma_lab::precopy::{
    Machine, MachineConfig, PAGE_BYTES, Transfer, Waits, memory_folder, migrate, random_memory,
};

use super::stage::Hosts;

const PORT: u16 = 4444;

const MEMORY_BYTES: u64 = 256 << 20;

/// Number of the pass that sends scattered pages, as QEMU counts: the first is under way until QEMU reports this one.
const SCATTERED_PASS: u64 = 2;

/// Limit of the migration itself, which takes a second or two on an idle machine.
const LIMIT: Duration = Duration::from_secs(40);

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
    let folder = memory_folder()?;
    let folder = folder.path();
    let random = random_memory(folder, MEMORY_BYTES)?;
    let share = if memory == Memory::Shared {
        "on"
    } else {
        "off"
    };
    let random = random.display();
    let filled =
        format!("memory-backend-file,id=ram,size={MEMORY_BYTES},mem-path={random},share={share}");
    let own = format!("memory-backend-ram,id=ram,size={MEMORY_BYTES}");
    let start = |side: Side, memory: &str, waits| {
        let config = MachineConfig {
            name: side.name(),
            folder,
            memory,
            bytes: MEMORY_BYTES,
            waits,
        };
        Machine::start(&config, &|command: &Command| stage.command(side, command))
    };
    let mut destination = start(Side::B, &own, Waits::Yes)?;
    let mut source = start(Side::A, &filled, Waits::No)?;
    source.wait_until_it_writes()?;
    let uri = format!("rdma:{}:{PORT}", stage.address(Side::B));
    let transfer = Transfer {
        uris: [uri.clone(), uri],
        channels: None,
        pins_all: false,
        limit: LIMIT,
    };
    let daemon = stage.daemon().process_id();
    let before = sleeps(daemon)?;
    let mut first = None;
    let passed = |pass| {
        if pass == SCATTERED_PASS {
            first = Some(sleeps(daemon)?);
        }
        Ok(())
    };
    let migrated = migrate([&mut source, &mut destination], &transfer, passed);
    let cost = migrated.with_context(|| format!("{}{}", source.said(), destination.said()))?;
    let after = sleeps(daemon)?;
    let first = first.context("QEMU told of no second pass")?;
    let scattered = cost.pages.saturating_sub(MEMORY_BYTES / PAGE_BYTES);
    println!(
        "{} pages in {} ms; the daemon slept {} times in the first pass, and {} for {scattered} scattered pages",
        cost.pages,
        cost.total.as_millis(),
        first - before,
        after - first
    );
    same(&source.dump()?, &destination.dump()?)
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
