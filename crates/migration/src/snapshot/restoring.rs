//! Restores a VM from two files.

use std::fs::File;

use vrdma_api::{ArrivedContext, RestoreRequest};

use super::file::{Contents, MemoryMark};
use super::{Options, Restored, SnapshotError, check_memory, connect, uri, wait_for_memory};
use crate::error::Cause;
use crate::pci::{Address, ConfigSpace};
use crate::progress::Watcher;
use crate::{Host, checks};

/// Restores the VM in a waiting QEMU (`-S -incoming defer`), and its adapter. The VM stands still afterwards.
///
/// # Errors
/// A condition is not met, or something failed: this QEMU cannot be used again then.
pub fn restore(options: &Options, watcher: &mut dyn Watcher) -> Result<Restored, SnapshotError> {
    let contents = Contents::read(&options.file)?;
    check_memory_file(options, &contents.memory)?;
    let mut host = connect(options)?;
    check_waits(&mut host, contents.address)?;
    let arrived = accepted(&host, &contents)?;
    let restored = go_on(&mut host, options, &contents, &arrived, watcher);
    restored.map_err(|why| {
        // No program is going to activate it.
        let _ = host.first_adapter().forget_context();
        SnapshotError::NotRestored(why.to_string())
    })?;
    Ok(Restored {
        records: arrived.records,
        pages: arrived.pages,
    })
}

fn check_memory_file(options: &Options, expected: &MemoryMark) -> Result<(), Cause> {
    let name = options.memory.display();
    let mark = File::open(&options.memory).and_then(|mut file| MemoryMark::of(&mut file));
    let mark = mark.map_err(|error| Cause::new(format!("cannot read {name}: {error}")))?;
    match mark == *expected {
        true => Ok(()),
        false => Err(Cause::new(format!(
            "{name} is not the memory that belongs to {}, or is damaged: name the two files of one snapshot",
            options.file.display()
        ))),
    }
}

fn check_waits(host: &mut Host, address: Address) -> Result<(), Cause> {
    let state = host.machine.state()?;
    let began = host.machine.migration()?;
    let waits = state == "inmigrate" || state == "prelaunch";
    if !waits || !began.is_over() {
        return Err(Cause::new(format!(
            "the VM's QEMU does not wait for a snapshot, it is {state}; start it anew with -S -incoming defer"
        )));
    }
    check_memory(&mut host.machine)?;
    let found = host.machine.adapters()?;
    match checks::is_at(&found, address) {
        true => Ok(()),
        false => Err(Cause::new(format!(
            "the adapter was at PCI address {address}, and is {} now; start QEMU with the options that the VM had (vrdma adapter qemu-args --slot)",
            checks::places(&found)
        ))),
    }
}

/// Has the daemon check and keep the context, which the adapter must be ready for.
fn accepted(host: &Host, contents: &Contents) -> Result<ArrivedContext, Cause> {
    let arrived = host.first_adapter().put_context(contents.context.clone())?;
    if let Err(why) = host.first_adapter().arrived() {
        // The context was for this adapter only.
        let _ = host.first_adapter().forget_context();
        return Err(why);
    }
    Ok(arrived)
}

fn go_on(
    host: &mut Host,
    options: &Options,
    contents: &Contents,
    arrived: &ArrivedContext,
    watcher: &mut dyn Watcher,
) -> Result<(), Cause> {
    let config = ConfigSpace::from_bytes(&arrived.config_space).ok_or_else(|| {
        Cause::new(
            "the daemon tells of no PCI configuration; use the same release of vrdma and vrdmad",
        )
    })?;
    host.machine.tell_of_migrations()?;
    host.machine
        .execute("migrate-incoming", uri(&options.memory)?)?;
    wait_for_memory(host, watcher)?;
    host.machine.configure(contents.address, &config)?;
    host.first_adapter().restore(&RestoreRequest {
        msix_table: contents.msix_table,
        end_connections: !options.keep_connections,
        memory_follows: false,
    })?;
    host.first_adapter().activate()
}
