//! Two hosts whose daemons serve processes, without any guest.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Result;
use tempfile::TempDir;
use vrdma_lab::daemon::{Adapter, Daemon, Host, User};
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Local, Place};
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{self, INTERFACE, WireConfig, WiredHosts};

use crate::programs;

/// Fields are in the order in which they must end.
pub(in crate::bench) struct Hosts {
    places: [Local; 2],
    pub(super) daemons: Vec<Daemon>,
    pub(super) wire: WiredHosts,
    _folder: TempDir,
}

impl Hosts {
    pub(in crate::bench) fn start(program: &Path, config: &WireConfig) -> Result<Self> {
        let library = programs::library()?;
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        let wire = WiredHosts::create(config, folder.path(), Lifetime::Owned)?;
        let sides = [Side::A, Side::B];
        let daemons = sides.map(|side| {
            let run_dir = folder.path().join(side.name());
            fs::create_dir(&run_dir)?;
            let host = Host {
                entry: wire.host(side),
                side,
                wire: config,
                interface: INTERFACE,
            };
            Daemon::start(
                program,
                &run_dir,
                &[adapter(side)],
                Some(host),
                Lifetime::Owned,
            )
        });
        let places = sides.map(|side| {
            let run_dir = folder.path().join(side.name());
            let preload = programs::preload(wire.host(side), side, &run_dir, &library);
            Local::new(&run_dir, preload.process())
        });
        Ok(Self {
            places,
            daemons: daemons.into_iter().collect::<Result<_>>()?,
            wire,
            _folder: folder,
        })
    }

    pub(in crate::bench) fn places(&self) -> [&dyn Place; 2] {
        self.places.each_ref().map(|place| place as &dyn Place)
    }
}

/// The adapter of a host. The host's own address belongs to its kernel, so the adapter has another in the same network.
fn adapter(side: Side) -> Adapter {
    let [a, b, c, d] = wire::address(side).octets();
    Adapter {
        name: side.name().to_owned(),
        mac: format!("02:00:00:00:00:{d:02x}"),
        user: User::Processes(Ipv4Addr::new(a, b, c, 100 + d)),
        is_away: false,
    }
}
