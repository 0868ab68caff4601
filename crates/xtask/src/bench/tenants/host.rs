//! A daemon with two tenants, whose programs run in the two network namespaces of a wire, where perftest's ends find
//! each other by TCP.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use vrdma_lab::daemon::{Adapter, Daemon, PortGroup, User};
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Local, Preload};
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{self, WireConfig, WiredHosts};

use crate::compiled::compiled;
use crate::programs::library;

/// Names of the tenants' port groups.
pub(super) const ONE: &str = "one";
pub(super) const THREE: &str = "three";

/// The programs and hosts that each measurement needs.
pub(super) struct Tools {
    daemon: PathBuf,
    cli: PathBuf,
    library: PathBuf,
    pub(super) churn: PathBuf,
    wire: WiredHosts,
    folder: tempfile::TempDir,
}

impl Tools {
    pub(super) fn make() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        Ok(Self {
            daemon: crate::lab::daemon(true)?,
            cli: crate::lab::built("vrdma", true)?,
            library: library()?,
            churn: compiled(folder.path(), "churn", include_str!("churn.c"))?,
            wire: WiredHosts::create(&WireConfig::default(), folder.path(), Lifetime::Owned)?,
            folder,
        })
    }
}

/// A daemon with the two tenants.
pub(super) struct Host<'a> {
    tools: &'a Tools,
    daemon: Daemon,
    folder: tempfile::TempDir,
}

impl<'a> Host<'a> {
    pub(super) fn start(tools: &'a Tools) -> Result<Self> {
        let folder = tempfile::tempdir_in(tools.folder.path())?;
        let run_dir = folder.path().join("run");
        fs::create_dir(&run_dir)?;
        let tenants = [(ONE, 1), (THREE, 2)].map(|(name, network)| PortGroup {
            name: name.to_owned(),
            adapters: [Side::A, Side::B]
                .map(|side| adapter(name, network, side))
                .to_vec(),
        });
        let daemon = Daemon::start_for(&tenants, &tools.daemon, &run_dir, Lifetime::Owned)?;
        Ok(Self {
            tools,
            daemon,
            folder,
        })
    }

    pub(super) fn set_weight(&self, tenant: &str, weight: u32) -> Result<()> {
        let mut command = Command::new(&self.tools.cli);
        command.arg("--socket").arg(self.daemon.control_socket());
        command.args(["portgroup", "set", tenant, "--weight", &weight.to_string()]);
        let status = command.status()?;
        ensure!(status.success(), "vrdma portgroup set failed");
        Ok(())
    }

    /// The place of a tenant's end.
    pub(super) fn place(&self, tenant: &str, side: Side) -> Result<Local> {
        let name = adapter_name(tenant, side);
        let output = self.folder.path().join(&name);
        fs::create_dir_all(&output)?;
        let preload = Preload {
            host: self.tools.wire.host(side).clone(),
            adapter: name,
            run_dir: self.folder.path().join("run"),
            library: self.tools.library.clone(),
            variables: vec![("A".to_owned(), wire::address(Side::A).to_string())],
        };
        Ok(Local::new(&output, preload.process()))
    }
}

fn adapter_name(tenant: &str, side: Side) -> String {
    format!("{tenant}-{}", side.name())
}

fn adapter(tenant: &str, network: u8, side: Side) -> Adapter {
    let last = match side {
        Side::A => 1,
        Side::B => 2,
    };
    Adapter {
        name: adapter_name(tenant, side),
        mac: format!("02:00:00:02:{network:02x}:{last:02x}"),
        user: User::Processes(Ipv4Addr::new(10, 78, network, last)),
        is_away: false,
    }
}
