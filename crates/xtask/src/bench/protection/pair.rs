//! Two places for programs, and the daemons between them.

use std::fs;

use anyhow::Result;
use tempfile::TempDir;
use vrdma_lab::daemon::Daemon;
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Local, Place};
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{Uplink, WireConfig, WiredHosts};

use crate::bench::wire::{Hosts, MTU};
use crate::programs;

pub(super) enum Pair {
    Here(Neighbours),
    Apart(Hosts),
}

/// Two programs of one daemon. Fields are in the order in which they must end.
pub(super) struct Neighbours {
    places: [Local; 2],
    _daemon: Daemon,
    _wire: WiredHosts,
    _folder: TempDir,
}

impl Pair {
    /// Programs of one host, over a daemon with its sandbox or without it.
    pub(super) fn confined(is_confined: bool) -> Result<Self> {
        let program = crate::lab::daemon(true)?;
        let library = programs::library()?;
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        let wire = WiredHosts::create(&WireConfig::default(), folder.path(), Lifetime::Owned)?;
        let run_dir = folder.path().join("run");
        fs::create_dir(&run_dir)?;
        let adapters = [Side::A, Side::B].map(programs::adapter);
        let line = format!("sandbox = {is_confined}");
        let daemon = Daemon::start_with(&line, &program, &run_dir, &adapters, Lifetime::Owned)?;
        let place = |side: Side| {
            let output = folder.path().join(side.name());
            fs::create_dir(&output)?;
            let preload = programs::preload(wire.host(side), side, &run_dir, &library);
            anyhow::Ok(Local::new(&output, preload.process()))
        };
        Ok(Self::Here(Neighbours {
            places: [place(Side::A)?, place(Side::B)?],
            _daemon: daemon,
            _wire: wire,
            _folder: folder,
        }))
    }

    /// Programs of two hosts, through a tunnel.
    pub(super) fn tunnelled(uplink: Uplink) -> Result<Self> {
        let wire = WireConfig {
            uplink,
            mtu: MTU,
            faults: String::new(),
        };
        let hosts = Hosts::start(&crate::lab::daemon(true)?, &wire)?;
        Ok(Self::Apart(hosts))
    }

    pub(super) fn places(&self) -> [&dyn Place; 2] {
        match self {
            Self::Here(neighbours) => neighbours
                .places
                .each_ref()
                .map(|place| place as &dyn Place),
            Self::Apart(hosts) => hosts.places(),
        }
    }
}
