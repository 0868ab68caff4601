//! A vrdmad that the lab starts, with one adapter for each of its guests.

mod configuration;
mod descriptors;
mod spare;

use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use vrdma_api::{AdapterStats, DoorbellMode, paths};
use vrdma_api_client::Client;

use crate::guest::{check_socket_path, log_tail};
use crate::namespace::Entry;
use crate::pair::Side;
use crate::process::{Lifetime, POLL, Supervised};
use crate::wire::WireConfig;
use configuration::{Plug, configuration, write_key};

/// Names the daemon to start instead of the built one.
pub const DAEMON_VARIABLE: &str = "VRDMA_VRDMAD";

/// Name of the port group in which all adapters reach each other.
const PORTGROUP: &str = "lab";

/// Longest time until the daemon accepts requests.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Longest time for an orderly end.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// One adapter of the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// The name of the adapter and of its sockets.
    pub name: String,
    /// Its MAC address, which is also that of the guest's network card.
    pub mac: String,
    /// The kind of its user.
    pub user: User,
    /// Whether its guest is on another host, from which it may come.
    pub is_away: bool,
}

/// The kind of an adapter's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// A guest, which rings doorbells.
    Guest(DoorbellMode),
    /// A guest whose kernel does RDMA by itself, over its network card.
    GuestStack,
    /// Processes; the adapter has this address.
    Processes(Ipv4Addr),
    /// The IP stack of the daemon's host, which gets this address in a /24.
    HostStack(Ipv4Addr),
}

/// A port group: adapters that reach each other and no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortGroup {
    /// Its name.
    pub name: String,
    /// The adapters in it.
    pub adapters: Vec<Adapter>,
}

/// The host of a wire on which a daemon runs.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// The way into its namespace.
    pub entry: &'a Entry,
    /// The side of the wire that it is.
    pub side: Side,
    /// The wire.
    pub wire: &'a WireConfig,
    /// The raw interface: [`INTERFACE`](crate::wire::INTERFACE), or [`PORT`](crate::wire::PORT) beside a guest's TAP.
    pub interface: &'static str,
}

/// A running daemon; dropping it ends it, unless it is to be kept.
#[derive(Debug)]
pub struct Daemon {
    process: Supervised,
    run_dir: PathBuf,
    client: Client,
}

impl Daemon {
    /// Starts a daemon and waits until it accepts requests, by which time its
    /// adapters' sockets exist.
    ///
    /// # Errors
    /// When it does not start, with the end of its log.
    pub fn start(
        program: &Path,
        run_dir: &Path,
        adapters: &[Adapter],
        host: Option<Host<'_>>,
        lifetime: Lifetime,
    ) -> Result<Self> {
        let configuration = wired_configuration(run_dir, adapters, host)?;
        let entry = host.map(|host| host.entry);
        Self::launch(program, run_dir, &configuration, entry, lifetime)
    }

    /// The same on a host without a wire, whose own IP stack may have an adapter there.
    ///
    /// # Errors
    /// As [`Daemon::start`].
    pub fn start_on(
        host: &Entry,
        program: &Path,
        run_dir: &Path,
        adapters: &[Adapter],
        lifetime: Lifetime,
    ) -> Result<Self> {
        let configuration = configuration(run_dir, &[(PORTGROUP, adapters)], None, None)?;
        Self::launch(program, run_dir, &configuration, Some(host), lifetime)
    }

    /// The same on this host, with a core for its data path.
    ///
    /// # Errors
    /// As [`Daemon::start`].
    pub fn start_with_core(
        core: u32,
        program: &Path,
        run_dir: &Path,
        adapters: &[Adapter],
        lifetime: Lifetime,
    ) -> Result<Self> {
        let configuration = configuration(run_dir, &[(PORTGROUP, adapters)], None, Some(core))?;
        Self::launch(program, run_dir, &configuration, None, lifetime)
    }

    /// The same for several tenants, on this host.
    ///
    /// # Errors
    /// As [`Daemon::start`].
    pub fn start_for(
        tenants: &[PortGroup],
        program: &Path,
        run_dir: &Path,
        lifetime: Lifetime,
    ) -> Result<Self> {
        let groups: Vec<(&str, &[Adapter])> = tenants
            .iter()
            .map(|tenant| (tenant.name.as_str(), tenant.adapters.as_slice()))
            .collect();
        let configuration = configuration(run_dir, &groups, None, None)?;
        Self::launch(program, run_dir, &configuration, None, lifetime)
    }

    /// The same on this host, with another line in the table `daemon` of its configuration.
    ///
    /// # Errors
    /// As [`Daemon::start`].
    pub fn start_with(
        line: &str,
        program: &Path,
        run_dir: &Path,
        adapters: &[Adapter],
        lifetime: Lifetime,
    ) -> Result<Self> {
        let configuration = wired_configuration(run_dir, adapters, None)?;
        let with = configuration.replacen("[daemon]\n", &format!("[daemon]\n{line}\n"), 1);
        Self::launch(program, run_dir, &with, None, lifetime)
    }

    /// The same as [`Daemon::start`] with a keeper, and workers that may crash as often as they like.
    ///
    /// # Errors
    /// As [`Daemon::start`].
    pub fn start_kept(
        program: &Path,
        run_dir: &Path,
        adapters: &[Adapter],
        host: Option<Host<'_>>,
        lifetime: Lifetime,
    ) -> Result<Self> {
        let configuration = wired_configuration(run_dir, adapters, host)?;
        let entry = host.map(|host| host.entry);
        let kept = configuration.replacen("[daemon]\n", "[daemon]\nsupervise = true\n", 1);
        let crashes = format!("--crashes={}", u16::MAX);
        Self::launch_with(&[&crashes], program, run_dir, &kept, entry, lifetime)
    }

    fn launch(
        program: &Path,
        run_dir: &Path,
        configuration: &str,
        entry: Option<&Entry>,
        lifetime: Lifetime,
    ) -> Result<Self> {
        Self::launch_with(&[], program, run_dir, configuration, entry, lifetime)
    }

    fn launch_with(
        options: &[&str],
        program: &Path,
        run_dir: &Path,
        configuration: &str,
        entry: Option<&Entry>,
        lifetime: Lifetime,
    ) -> Result<Self> {
        let config = run_dir.join("vrdmad.toml");
        fs::write(&config, configuration)?;
        let mut command = Command::new(program);
        command.arg("--config").arg(config).args(options);
        let command = match entry {
            Some(entry) => entry.command(&command),
            None => command,
        };
        let process = Supervised::spawn(&command, Some(&log(run_dir)), lifetime)
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut daemon = Self {
            process,
            run_dir: run_dir.to_owned(),
            client: Client::new(control_socket(run_dir))?,
        };
        daemon.wait_until_it_accepts()?;
        Ok(daemon)
    }

    fn wait_until_it_accepts(&mut self) -> Result<()> {
        let socket = self.control_socket();
        check_socket_path(&socket)?;
        let deadline = Instant::now() + START_LIMIT;
        while UnixStream::connect(&socket).is_err() {
            if let Some(status) = self.process.ended()? {
                bail!("vrdmad ended at once ({status}):\n{}", self.log_tail());
            }
            ensure!(
                Instant::now() < deadline,
                "vrdmad does not accept:\n{}",
                self.log_tail()
            );
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// The socket at which it takes requests.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        control_socket(&self.run_dir)
    }

    /// Returns its adapters.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn adapters(&self) -> Result<Vec<vrdma_api::Adapter>> {
        Ok(self.client.get(paths::ADAPTERS)?)
    }

    /// Returns its counters, an entry an adapter.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn stats(&self) -> Result<Vec<AdapterStats>> {
        Ok(self.client.get(paths::STATS)?)
    }

    /// Folder of its sockets and its log.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        log_tail(&log(&self.run_dir))
    }

    /// Its process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// The worker of a daemon with a keeper, while there is one.
    #[must_use]
    pub fn worker_id(&self) -> Option<u32> {
        let keeper = self.process_id();
        let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).ok()?;
        let name = |id: u32| fs::read_to_string(format!("/proc/{id}/comm")).ok();
        let of_keeper = name(keeper)?;
        // The watcher that ends the daemon with its owner is a child of the keeper, too.
        let mut ids = children.split_whitespace().filter_map(|id| id.parse().ok());
        ids.find(|id| name(*id).as_ref() == Some(&of_keeper))
    }

    /// Asks it to end, and kills it if it does not.
    pub fn stop(mut self) {
        self.process.stop(STOP_LIMIT);
    }
}

/// The configuration of a daemon that may have the end of a wire. Writes the key that it shares with the other daemon.
fn wired_configuration(
    run_dir: &Path,
    adapters: &[Adapter],
    host: Option<Host<'_>>,
) -> Result<String> {
    let plug = host.map(|host| Plug {
        wire: host.wire,
        side: host.side,
        interface: host.interface,
    });
    if plug.is_some() {
        write_key(run_dir)?;
    }
    configuration(run_dir, &[(PORTGROUP, adapters)], plug, None)
}

/// An adapter's socket for QEMU's `vfio-user-pci`.
#[must_use]
pub fn vfio_user_socket(run_dir: &Path, adapter: &str) -> PathBuf {
    run_dir.join(format!("{adapter}.vfio-user"))
}

/// An adapter's socket for QEMU's `-netdev stream`.
#[must_use]
pub fn ethernet_socket(run_dir: &Path, adapter: &str) -> PathBuf {
    run_dir.join(format!("{adapter}.ethernet"))
}

/// The socket for the verbs library of processes.
#[must_use]
pub fn process_socket(run_dir: &Path) -> PathBuf {
    run_dir.join("process.sock")
}

/// Tells how many services of `rdma_cm` are offered at those adapters of the daemon with that folder that `at` selects;
/// none if the daemon does not answer.
///
/// # Errors
/// When there are no descriptors left.
pub fn services(
    run_dir: &Path,
    at: impl Fn(&str) -> bool + 'static,
) -> Result<impl Fn() -> u32 + 'static> {
    let client = Client::new(control_socket(run_dir))?;
    Ok(move || {
        let adapters: Vec<AdapterStats> = client.get(paths::STATS).unwrap_or_default();
        let chosen = adapters.iter().filter(|adapter| at(adapter.name.as_str()));
        chosen.map(|adapter| adapter.rdma.listeners).sum()
    })
}

/// The daemon beside the running program: in its folder, or in the one above
/// for a test, which cargo puts one deeper.
///
/// # Errors
/// When it has not been built.
pub fn built_daemon() -> Result<PathBuf> {
    if let Some(path) = env::var_os(DAEMON_VARIABLE) {
        return Ok(path.into());
    }
    let program = env::current_exe()?;
    let found = program
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("vrdmad"));
    let found = found.into_iter().find(|path| path.is_file());
    found.context("vrdmad is not built: run cargo build --package vrdma-daemon")
}

fn control_socket(run_dir: &Path) -> PathBuf {
    run_dir.join("vrdmad.sock")
}

fn log(run_dir: &Path) -> PathBuf {
    run_dir.join("vrdmad.log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_dies_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("vrdmad");
        fs::write(&program, "#!/bin/sh\necho \"bad $1\"; exit 2\n").unwrap();
        let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        fs::set_permissions(&program, mode).unwrap();
        let error = Daemon::start(&program, folder.path(), &[], None, Lifetime::Owned).unwrap_err();
        assert!(error.to_string().contains("bad --config"), "{error}");
    }
}
