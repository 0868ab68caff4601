//! Two programs of perftest, one in each network namespace of a wire, with an adapter each of one daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use tempfile::TempDir;
use vrdma_lab::daemon::Adapter;
use vrdma_lab::pair::Side;
use vrdma_lab::place::{self, Local};
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{WireConfig, WiredHosts};

use crate::programs::{adapter, library, preload};

/// Twenty times as long as the slowest takes.
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// The programs and hosts that each measurement needs.
pub(super) struct Ground {
    pub(super) daemon: PathBuf,
    pub(super) library: PathBuf,
    pub(super) wire: WiredHosts,
    pub(super) folder: TempDir,
}

impl Ground {
    pub(super) fn make() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        Ok(Self {
            daemon: crate::lab::daemon(true)?,
            library: library()?,
            wire: WiredHosts::create(&WireConfig::default(), folder.path(), Lifetime::Owned)?,
            folder,
        })
    }

    /// The adapters of the two programs.
    pub(super) fn adapters() -> Vec<Adapter> {
        vec![adapter(Side::A), adapter(Side::B)]
    }

    /// Runs a program on a daemon with that folder and returns what its client prints.
    pub(super) fn run(&self, run_dir: &Path, program: &str) -> Result<String> {
        let outputs = tempfile::tempdir_in(self.folder.path())?;
        let place = |side: Side| {
            let output = outputs.path().join(side.name());
            fs::create_dir(&output)?;
            let preload = preload(self.wire.host(side), side, run_dir, &self.library);
            anyhow::Ok(Local::new(&output, preload.process()))
        };
        let (server, client) = (place(Side::A)?, place(Side::B)?);
        let asked = format!("{program} $A");
        let outcome = place::run([&server, &client], program, &asked, RUN_LIMIT)?;
        let text = outcome.client.stdout_text();
        let status = outcome.client.status;
        ensure!(status == 0, "status {status}:\n{text}");
        Ok(text)
    }
}
