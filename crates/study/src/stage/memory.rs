//! Migrates a guest's memory from a QEMU of side a to one of side b.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vrdma_lab::daemon::Daemon;
use vrdma_lab::precopy::{
    self, Machine, MachineConfig, Placing, Relays, Transfer, Waits, memory_folder, processor_time,
    random_memory,
};

use crate::machine;
use crate::tool::{MEMORY_MIB, Took};

/// Limit on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Memory of the QEMUs besides both guests' memories.
const QEMUS_MIB: u64 = 1024;

/// Makes the command of a QEMU in its place.
pub(super) type Enter<'a> = &'a dyn Fn(&Command) -> Command;

/// The programs that move the memory.
pub(super) enum Migration<'a> {
    /// QEMU itself, over several streams if `channels` is given.
    Qemu { uri: String, channels: Option<u8> },
    /// Relays.
    Relays(Placing<'a>),
}

/// Starts both QEMUs, migrates, and returns what it took.
pub(super) fn migrate(
    [source, destination]: [Enter<'_>; 2],
    migration: &Migration<'_>,
    daemons: &[&Daemon],
) -> Result<Took> {
    let (needed, available) = (2 * MEMORY_MIB + QEMUS_MIB, machine::available_mib());
    ensure!(
        needed <= available,
        "two QEMUs with {MEMORY_MIB} MiB each need {needed} MiB, and this machine has {available} MiB free"
    );
    let folder = memory_folder()?;
    let random = random_memory(folder.path(), MEMORY_MIB << 20)?;
    let file = format!(
        "memory-backend-file,id=ram,size={MEMORY_MIB}M,mem-path={},share=on",
        random.display()
    );
    // Allocated before: the first access to pages while they arrive would cost more than what is measured.
    let own = format!("memory-backend-memfd,id=ram,size={MEMORY_MIB}M,share=on,prealloc=on");
    let mut destination = start(folder.path(), "destination", &own, Waits::Yes, destination)?;
    let mut source = start(folder.path(), "source", &file, Waits::No, source)?;
    source.wait_until_it_writes()?;
    let before = time_of(daemons)?;
    let machines = [&mut source, &mut destination];
    let (relays, uris, channels) = match migration {
        Migration::Qemu { uri, channels } => (None, [uri.clone(), uri.clone()], *channels),
        Migration::Relays(placing) => {
            let relays = Relays::start(placing, machines)?;
            let uris = relays.uris();
            (Some(relays), uris, None)
        }
    };
    let transfer = Transfer {
        pins_all: uris[0].starts_with("rdma:"),
        uris,
        channels,
        limit: LIMIT,
    };
    let migrated = precopy::migrate([&mut source, &mut destination], &transfer, |_| Ok(()));
    let cost = migrated.with_context(|| format!("{}{}", source.said(), destination.said()))?;
    let of_relays = relays.map(|relays| relays.finish(&mut source));
    let of_relays = of_relays.transpose()?.unwrap_or_default();
    Ok(Took {
        pages: cost.pages,
        seconds: cost.total.as_secs_f64(),
        downtime: cost.downtime.as_secs_f64(),
        source: (cost.source + of_relays[0]).as_secs_f64(),
        destination: (cost.destination + of_relays[1]).as_secs_f64(),
        daemon: time_of(daemons)?.saturating_sub(before).as_secs_f64(),
    })
}

fn start(
    folder: &Path,
    name: &str,
    memory: &str,
    waits: Waits,
    enter: Enter<'_>,
) -> Result<Machine> {
    let config = MachineConfig {
        name,
        folder,
        memory,
        bytes: MEMORY_MIB << 20,
        waits,
    };
    Machine::start(&config, enter)
}

fn time_of(daemons: &[&Daemon]) -> Result<Duration> {
    let times = daemons
        .iter()
        .map(|daemon| processor_time(daemon.process_id(), None));
    times.sum()
}
