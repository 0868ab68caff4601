//! The daemon and the two network namespaces.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use tempfile::TempDir;
use vrdma_lab::daemon::{Adapter, Daemon, User, services};
use vrdma_lab::image::Image;
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Enter, Local, Place};
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{self, WireConfig, WiredHosts};
use vrdma_study::programs::Own;

use super::Stage;
use super::preload::{library, preload};
use super::remains::Remains;

/// Everything that rows share. Fields are in the order in which they must end.
pub(crate) struct Hosts {
    processes: [Local; 2],
    containers: [Local; 2],
    daemon: Daemon,
    wire: WiredHosts,
    remains: Remains,
    library: PathBuf,
    run_dir: PathBuf,
    _folder: TempDir,
}

impl Hosts {
    pub(crate) fn start() -> Result<Self> {
        let image = Image::ensure()?;
        let program = crate::lab::daemon(true)?;
        let library = library()?;
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        let wire = WiredHosts::create(&WireConfig::default(), folder.path(), Lifetime::Owned)?;
        let run_dir = folder.path().join("run");
        fs::create_dir(&run_dir)?;
        own_programs(&run_dir.join("own"))?;
        let adapters = [Side::A, Side::B].map(adapter);
        let daemon = Daemon::start(&program, &run_dir, &adapters, None, Lifetime::Owned)?;
        let remains = Remains::of_idle(&daemon)?;
        let place = |name: &str, side: Side, enter: Enter| {
            let output = folder.path().join(format!("{name}-{}", side.name()));
            fs::create_dir(&output)?;
            let services = services(&run_dir, move |adapter| adapter == side.name())?;
            anyhow::Ok(Local::new(&output, enter).offering(services))
        };
        let processes = both(|side| {
            let preload = preload(wire.host(side), side, &run_dir, &library);
            place("host", side, preload.process())
        })?;
        let containers = both(|side| {
            let preload = preload(wire.host(side), side, &run_dir, &library);
            place("box", side, preload.container(&image.root("")))
        })?;
        Ok(Self {
            processes,
            containers,
            daemon,
            wire,
            remains,
            library,
            run_dir,
            _folder: folder,
        })
    }

    pub(crate) fn processes(&self) -> [&dyn Place; 2] {
        self.processes.each_ref().map(|place| place as &dyn Place)
    }

    /// A command as a process of a side.
    pub(super) fn command(&self, side: Side, command: &Command) -> Command {
        let host = self.wire.host(side);
        preload(host, side, &self.run_dir, &self.library).command(command)
    }

    /// The same for a program of ours, which has the library linked in.
    pub(super) fn linked(&self, side: Side, command: &Command) -> Command {
        let host = self.wire.host(side);
        preload(host, side, &self.run_dir, &self.library).linked(command)
    }

    pub(super) fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// A side's address, by which the other side calls it.
    pub(super) fn address(&self, side: Side) -> Ipv4Addr {
        wire::address(side)
    }

    pub(super) fn containers(&self) -> [&dyn Place; 2] {
        self.containers.each_ref().map(|place| place as &dyn Place)
    }
}

impl Stage for Hosts {
    fn settles(&self) -> Result<()> {
        self.remains.wait_until_gone(&self.daemon)
    }

    fn logs(&self) -> String {
        let counters = self.remains.counters(&self.daemon);
        format!("--- daemon\n{}\n{counters}", self.daemon.log_tail())
    }
}

/// Builds our own programs, in a folder that containers see too.
fn own_programs(folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    for own in [Own::Cp, Own::Rude] {
        own.build(folder)?;
    }
    Ok(())
}

pub(super) fn both<T>(make: impl Fn(Side) -> Result<T>) -> Result<[T; 2]> {
    Ok([make(Side::A)?, make(Side::B)?])
}

pub(crate) fn adapter(side: Side) -> Adapter {
    Adapter {
        name: side.name().to_owned(),
        mac: format!("02:00:00:00:00:{:02x}", 1 + u8::from(side == Side::B)),
        user: User::Processes(wire::address(side)),
        is_away: false,
    }
}
