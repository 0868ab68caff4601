//! Saves a VM that stands still to two files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;
use tempfile::NamedTempFile;
use vrdma_api::{ArrivedContext, MSIX_TABLE_WORDS};

use super::file::{Contents, MemoryMark};
use super::{Options, Saved, SnapshotError, check_memory, connect, uri, wait_for_memory};
use crate::error::Cause;
use crate::pci::{Address, ConfigSpace};
use crate::progress::Watcher;
use crate::revive::CANCEL_LIMIT;
use crate::{Host, checks};

/// Takes a snapshot. The VM has to stand still and does so afterwards; the adapter works on.
///
/// # Errors
/// A condition is not met, or something failed and was taken back.
pub fn save(options: &Options, watcher: &mut dyn Watcher) -> Result<Saved, SnapshotError> {
    let file = NamedTempFile::new_in(folder(&options.file));
    let file = file.map_err(|error| cannot_write(&options.file, &error))?;
    save_by(file, options, watcher)
}

/// The same, with an open file that is given the name of the adapter's file in the end.
pub(crate) fn save_by(
    file: NamedTempFile,
    options: &Options,
    watcher: &mut dyn Watcher,
) -> Result<Saved, SnapshotError> {
    let mut saving = Saving::prepare(file, options)?;
    let outcome = saving.run(watcher).and_then(|parts| saving.finish(parts));
    outcome.map_err(|why| saving.take_back(&why))
}

struct Saving<'a> {
    options: &'a Options,
    host: Host,
    address: Address,
    /// Temporary file, in the folder of the final one: it could not be renamed to another file system.
    file: Option<NamedTempFile>,
    /// File that QEMU writes.
    partial: PathBuf,
}

struct Parts {
    context: Vec<u8>,
    arrived: ArrivedContext,
    msix_table: Option<[u32; MSIX_TABLE_WORDS]>,
}

impl<'a> Saving<'a> {
    fn prepare(file: NamedTempFile, options: &'a Options) -> Result<Self, Cause> {
        let mut host = connect(options)?;
        check_stands_still(&mut host)?;
        let address = checks::only_adapter(&mut host.machine)?;
        check_memory(&mut host.machine)?;
        let mut partial = options.memory.clone().into_os_string();
        partial.push(".partial");
        Ok(Self {
            options,
            host,
            address,
            file: Some(file),
            partial: partial.into(),
        })
    }

    fn run(&mut self, watcher: &mut dyn Watcher) -> Result<Parts, Cause> {
        let uri = uri(&self.partial)?;
        self.host.first_adapter().track()?;
        self.host.machine.tell_of_migrations()?;
        let limits = self.host.machine.lift_bandwidth_limit()?;
        self.host.machine.execute("migrate", uri)?;
        let written = wait_for_memory(&mut self.host, watcher);
        let machine = &mut self.host.machine;
        machine.execute("migrate-set-parameters", limits)?;
        written?;
        let context = self.host.first_adapter().save()?;
        // Checked by the daemon: a context that it would refuse is no snapshot.
        let arrived = self.host.first_adapter().put_context(context.clone());
        let forgotten = self.host.first_adapter().forget_context();
        let arrived = arrived?;
        forgotten?;
        let config = ConfigSpace::from_bytes(&arrived.config_space);
        let table = config.and_then(|config| config.msix_table());
        // Read from the guest's memory, which stands still.
        let table = table.map(|address| self.host.machine.msix_table(address));
        Ok(Parts {
            context,
            arrived,
            msix_table: table.transpose()?,
        })
    }

    /// Writes both files to the disk before either gets its name: the adapter's last, because it refers to the other
    /// one.
    fn finish(&mut self, parts: Parts) -> Result<Saved, Cause> {
        let Options { file, memory, .. } = self.options;
        let mark = sync_memory(&self.partial).map_err(|error| cannot_write(memory, &error))?;
        let contents = Contents {
            address: self.address,
            msix_table: parts.msix_table,
            memory: mark,
            context: parts.context,
        };
        let bytes = contents.encode();
        let own = self.file.take();
        let mut own = own.ok_or_else(|| Cause::new("the snapshot was written already"))?;
        write(&mut own, &bytes).map_err(|error| cannot_write(file, &error))?;
        name_memory(&self.partial, memory).map_err(|error| cannot_write(memory, &error))?;
        name_file(own, file).map_err(|error| cannot_write(file, &error))?;
        Ok(Saved {
            file_bytes: bytes.len() as u64,
            memory_bytes: mark.bytes,
            records: parts.arrived.records,
            pages: parts.arrived.pages,
        })
    }

    fn take_back(&mut self, why: &Cause) -> SnapshotError {
        // The error of this step would say no more than `why`.
        let _ = self.cancel();
        let thawed = self.host.first_adapter().thaw();
        // QEMU may never have begun it.
        let _ = fs::remove_file(&self.partial);
        SnapshotError::NotSaved {
            why: why.to_string(),
            left: thawed.err().map(|why| {
                format!(
                    "the adapter may stand still or note what it writes ({why}), restart its daemon"
                )
            }),
        }
    }

    /// Has QEMU stop writing.
    fn cancel(&mut self) -> Result<(), Cause> {
        let deadline = Instant::now() + CANCEL_LIMIT;
        let machine = &mut self.host.machine;
        if machine.migration()?.is_over() {
            return Ok(());
        }
        machine.execute("migrate_cancel", json!({}))?;
        while !machine.migration()?.is_over() && Instant::now() < deadline {
            machine.next_event(super::TELL_EVERY)?;
        }
        Ok(())
    }
}

fn check_stands_still(host: &mut Host) -> Result<(), Cause> {
    let under_way = host.machine.migration()?;
    if !under_way.is_over() {
        return Err(Cause::new(format!(
            "the VM's QEMU is in a migration already ({}); let it end first",
            under_way.status
        )));
    }
    match host.machine.state()?.as_str() {
        "paused" => Ok(()),
        "postmigrate" => Err(Cause::new(
            "the VM has stood still since another snapshot or migration, and QEMU takes no second one; let it run with cont, then stop it again",
        )),
        state => Err(Cause::new(format!(
            "the VM does not stand still, it is {state}; stop it with QMP's stop first, and let it run with cont when its disks are copied, too"
        ))),
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Cause {
    Cause::new(format!("cannot write {}: {error}", path.display()))
}

/// Writes QEMU's file to the disk, since QEMU does not wait for that.
fn sync_memory(partial: &Path) -> io::Result<MemoryMark> {
    let mut file = File::open(partial)?;
    file.sync_all()?;
    MemoryMark::of(&mut file)
}

fn name_memory(partial: &Path, path: &Path) -> io::Result<()> {
    fs::rename(partial, path)?;
    File::open(folder(path))?.sync_all()
}

fn write(file: &mut NamedTempFile, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.as_file().sync_all()
}

fn name_file(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.persist(path)?;
    File::open(folder(path))?.sync_all()
}
