//! A guest of a pair that moves to the other host.
//!
//! ```text
//!   host a: QEMU of guest a, running ──migration, by whoever is tested──► host b: QEMU of guest a, waiting
//!   Pair::expect starts the waiting one; Pair::arrived puts it in the place of the other
//! ```
//! Programs that run in it lose their connection to the lab: start them so that they write into files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::{Network, Pair, Side};
use crate::daemon::Daemon;
use crate::guest::{BOOT_LIMIT, Guest};
use crate::patience::patient;
use crate::place::Preload;
use crate::wire::spare_migration_end;

/// A QEMU that waits for a guest.
#[derive(Debug)]
pub struct Arriving {
    guest: Guest,
    of: Side,
    to: Side,
}

impl Arriving {
    /// Its monitor.
    #[must_use]
    pub fn monitor(&self) -> PathBuf {
        self.guest.config().file("qmp")
    }

    /// Its process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.guest.process_id()
    }
}

impl Pair {
    /// The side on whose host a guest is.
    #[must_use]
    pub fn place(&self, guest: Side) -> Side {
        self.places[guest.index()]
    }

    /// The names of a guest's adapters.
    #[must_use]
    pub fn adapters(&self, guest: Side) -> Vec<String> {
        let adapters = self.config.adapters(guest).into_iter();
        adapters.map(|adapter| adapter.name).collect()
    }

    /// The monitor of a guest's QEMU.
    #[must_use]
    pub fn monitor(&self, guest: Side) -> PathBuf {
        self.guest(guest).config().file("qmp")
    }

    /// The daemon of a side's host, with [`Network::Wire`] and two vrdma guests.
    ///
    /// # Panics
    /// If the pair has fewer daemons.
    #[must_use]
    pub fn daemon_of(&self, host: Side) -> &Daemon {
        &self.daemons[host.index()]
    }

    /// The environment by which a program of a host uses the adapter of its QEMUs, if they have one.
    #[must_use]
    pub fn process(&self, host: Side) -> Option<Preload> {
        let entry = self.wire.as_ref()?.host(host);
        let daemon_dir = self.config.daemon_dir(host, self.run_dir.path());
        self.config.verbs(&daemon_dir, entry)
    }

    /// Starts a second daemon on the host where a guest is not, with only that guest's adapter and no uplink: it may be
    /// killed without affecting the other guest. Its predecessor must have ended.
    ///
    /// # Errors
    /// When the pair has one host, or the daemon does not start.
    pub fn spare_daemon(&self, of: Side) -> Result<Daemon> {
        let (Some(wire), Network::Wire { program, .. }) = (&self.wire, &self.config.network) else {
            bail!("there is one host only");
        };
        let folder = self.run_dir.path().join("spare");
        fs::create_dir_all(&folder)?;
        let adapters = self.config.away(of);
        let side = self.place(of).other();
        Daemon::start_spare(
            wire.host(side),
            spare_migration_end(side),
            program,
            &folder,
            &adapters,
            self.config.lifetime,
        )
    }

    /// Whether the daemons of both hosts reach each other, and hand adapters over by themselves.
    #[must_use]
    pub fn daemons_hand_over(&self) -> bool {
        let bridged = |host| self.config.has_bridge(host);
        self.wire.is_some() && ![Side::A, Side::B].into_iter().any(bridged)
    }

    /// Starts a QEMU that waits for a guest on the host where it is not.
    ///
    /// # Errors
    /// When the pair has one host, or QEMU does not start.
    pub fn expect(&mut self, of: Side) -> Result<Arriving> {
        let to = self.place(of).other();
        let daemon_dir = self.config.daemon_dir(to, self.run_dir.path());
        self.expect_at(of, &daemon_dir)
    }

    /// The same at a daemon of that host which has that folder.
    ///
    /// # Errors
    /// As [`Pair::expect`].
    pub fn expect_at(&mut self, of: Side, daemon_dir: &Path) -> Result<Arriving> {
        self.begin_waiting(of, self.place(of).other(), daemon_dir)
    }

    /// Ends a guest's QEMU, and starts another one in its place, which waits for what the first has saved.
    ///
    /// # Errors
    /// As [`Pair::expect`].
    pub fn expect_back(&mut self, of: Side) -> Result<Arriving> {
        self.guests[of.index()].kill();
        let place = self.place(of);
        let daemon_dir = self.config.daemon_dir(place, self.run_dir.path());
        self.begin_waiting(of, place, &daemon_dir)
    }

    fn begin_waiting(&mut self, of: Side, to: Side, daemon_dir: &Path) -> Result<Arriving> {
        ensure!(
            self.config.travels,
            "this pair's guests stay where they are"
        );
        let wire = self.wire.as_ref().context("there is one host only")?;
        self.moves += 1;
        let folder = self.run_dir.path().join(format!("m{}", self.moves));
        fs::create_dir(&folder)?;
        let host = wire.host(to).clone();
        let run_dir = self.run_dir.path();
        let config = self.config.incoming(of, daemon_dir, run_dir, folder, host);
        let guest = Guest::start(&self.image, self.accelerator, &config)?;
        Ok(Arriving { guest, of, to })
    }

    /// Notes that the guest runs at the new place, and ends its former QEMU if that has not ended itself.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub fn arrived(&mut self, arriving: Arriving) -> Result<()> {
        let Arriving { guest, of, to } = arriving;
        self.guests[of.index()] = guest;
        self.places[of.index()] = to;
        let waited = self.guests[of.index()].wait_here(patient(BOOT_LIMIT)?);
        waited.map_err(|error| self.explain(&error))
    }
}
