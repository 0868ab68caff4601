//! `vrdma adapter save` and `restore`: write a VM with its adapter into files, and load it from them.

use std::path::Path;

use vrdma_migration::HostSockets;
use vrdma_migration::snapshot::{self, Options, SnapshotError};

use crate::arguments::{RestoreOptions, SnapshotOptions};
use crate::failure::Failure;
use crate::migrate::Console;
use crate::report::Report;
use crate::table::bytes;

const CONT: &str = "the VM stands still; QEMU's cont lets it run";

pub(crate) fn save(socket: &Path, options: &SnapshotOptions) -> Result<Report, Failure> {
    let saved = snapshot::save(&what(socket, options), &mut Console::new()?).map_err(failed)?;
    let text = format!(
        "{}: {}, {} records, {} pages\n{}: {}\n{CONT}",
        options.file.display(),
        bytes(saved.file_bytes),
        saved.records,
        saved.pages,
        options.memory.display(),
        bytes(saved.memory_bytes),
    );
    Ok(Report::new(&saved, text))
}

pub(crate) fn restore(socket: &Path, options: &RestoreOptions) -> Result<Report, Failure> {
    let what = Options {
        keep_connections: options.keep_connections,
        ..what(socket, &options.snapshot)
    };
    let restored = snapshot::restore(&what, &mut Console::new()?).map_err(failed)?;
    let text = format!(
        "adapter {} goes on with {} records and {} pages\n{CONT}",
        options.snapshot.name, restored.records, restored.pages
    );
    Ok(Report::new(&restored, text))
}

fn what(socket: &Path, options: &SnapshotOptions) -> Options {
    Options {
        adapter: options.name.clone(),
        sockets: HostSockets {
            control: socket.to_owned(),
            qmp: options.qmp.clone(),
        },
        file: options.file.clone(),
        memory: options.memory.clone(),
        keep_connections: false,
    }
}

#[allow(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn failed(error: SnapshotError) -> Failure {
    Failure::new(error.to_string())
}
