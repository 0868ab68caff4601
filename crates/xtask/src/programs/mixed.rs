//! A guest and programs of its host, or of another: both are adapters of one port group, and each can be the server.

use std::fs;

use anyhow::Result;
use vrdma_lab::daemon::services;
use vrdma_lab::guest::Kind;
use vrdma_lab::pair::{HOST_STACK, Mixed, Side};
use vrdma_lab::place::{Local, Place};
use vrdma_lab::wire::{Uplink, WireConfig};

use super::Stage;
use super::preload::{library, preload_at};
use super::remains::Remains;
use crate::rxe;

/// Fields are in the order in which they must end.
pub(super) struct GuestAndHost {
    host: Local,
    mixed: Mixed,
    /// Of each daemon, the objects of its idle state.
    remains: Vec<Remains>,
}

impl GuestAndHost {
    /// Both the guest and the programs at one daemon.
    pub(super) fn start() -> Result<Self> {
        Self::of(Mixed::start(&crate::lab::daemon(true)?)?)
    }

    /// The guest and the programs on different hosts.
    pub(super) fn across(kind: Kind, uplink: Uplink) -> Result<Self> {
        let wire = WireConfig {
            uplink,
            ..WireConfig::default()
        };
        Self::of(Mixed::across(&crate::lab::daemon(true)?, kind, wire)?)
    }

    fn of(mixed: Mixed) -> Result<Self> {
        rxe::watch([mixed.guest()])?;
        let remains: Result<Vec<_>> = mixed.daemons().iter().map(Remains::of_idle).collect();
        let addresses = [Side::A, Side::B].map(Side::address);
        let [daemon, ..] = mixed.daemons() else {
            anyhow::bail!("programs need a daemon");
        };
        let (library, run_dir) = (library()?, daemon.run_dir());
        let mut preload = preload_at(mixed.host(), Side::B, run_dir, &library, addresses);
        preload
            .variables
            .push(("H".to_owned(), HOST_STACK.to_string()));
        let output = mixed.run_dir().join("host");
        fs::create_dir(&output)?;
        let services = services(run_dir, |adapter| adapter == Side::B.name())?;
        Ok(Self {
            host: Local::new(&output, preload.process()).offering(services),
            remains: remains?,
            mixed,
        })
    }

    /// The places of server and client when the guest serves.
    pub(super) fn guest_serves(&self) -> [&dyn Place; 2] {
        [self.mixed.guest().control(), &self.host]
    }

    /// The places of server and client when the host serves.
    pub(super) fn host_serves(&self) -> [&dyn Place; 2] {
        [&self.host, self.mixed.guest().control()]
    }
}

impl Stage for GuestAndHost {
    fn settles(&self) -> Result<()> {
        let mut daemons = self.mixed.daemons().iter().zip(&self.remains);
        daemons.try_for_each(|(daemon, remains)| remains.wait_until_gone(daemon))?;
        rxe::check([self.mixed.guest()])
    }

    fn logs(&self) -> String {
        let daemons = self.mixed.daemons().iter().zip(&self.remains);
        let counters = daemons.map(|(daemon, remains)| remains.counters(daemon));
        self.mixed.logs() + &counters.collect::<String>()
    }

    fn told(&self) -> Option<String> {
        rxe::told([self.mixed.guest()])
    }
}
