//! Two hosts with a daemon each. With a tunnel the programs' adapters have the hosts' addresses; on the cable itself
//! those are in use, so the adapters have others.

use std::fs;
use std::net::Ipv4Addr;

use anyhow::Result;
use tempfile::TempDir;
use vrdma_lab::daemon::{Adapter, Daemon, Host, User, services};
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Local, Place};
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{self, INTERFACE, Uplink, WireConfig, WiredHosts};

use super::Stage;
use super::preload::{library, preload_at};
use super::remains::Remains;
use super::stage::{adapter, both};

/// Fields are in the order in which they must end.
pub(super) struct Apart {
    processes: [Local; 2],
    hosts: [(Daemon, Remains); 2],
    _wire: WiredHosts,
    _folder: TempDir,
}

impl Apart {
    pub(super) fn start(uplink: Uplink) -> Result<Self> {
        let program = crate::lab::daemon(true)?;
        let library = library()?;
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        let config = WireConfig {
            uplink,
            ..WireConfig::default()
        };
        let wire = WiredHosts::create(&config, folder.path(), Lifetime::Owned)?;
        let run_dir = |side: Side| folder.path().join(format!("run-{}", side.name()));
        let hosts = both(|side| {
            fs::create_dir(run_dir(side))?;
            let host = Host {
                entry: wire.host(side),
                side,
                wire: &config,
                interface: INTERFACE,
            };
            let adapters = [Adapter {
                user: User::Processes(address(uplink, side)),
                ..adapter(side)
            }];
            let run_dir = run_dir(side);
            let daemon = Daemon::start(&program, &run_dir, &adapters, Some(host), Lifetime::Owned)?;
            let remains = Remains::of_idle(&daemon)?;
            Ok((daemon, remains))
        })?;
        let processes = both(|side| {
            let services = services(&run_dir(side), move |adapter| adapter == side.name())?;
            let output = folder.path().join(format!("host-{}", side.name()));
            fs::create_dir(&output)?;
            let addresses = [Side::A, Side::B].map(|side| address(uplink, side));
            let host = wire.host(side);
            let mut preload = preload_at(host, side, &run_dir(side), &library, addresses);
            let stack = wire::address(Side::A).to_string();
            preload.variables.push(("H".to_owned(), stack));
            Ok(Local::new(&output, preload.process()).offering(services))
        })?;
        Ok(Self {
            processes,
            hosts,
            _wire: wire,
            _folder: folder,
        })
    }

    pub(super) fn processes(&self) -> [&dyn Place; 2] {
        self.processes.each_ref().map(|place| place as &dyn Place)
    }
}

/// The address of a side's adapter.
fn address(uplink: Uplink, side: Side) -> Ipv4Addr {
    match uplink {
        Uplink::Raw => side.address(),
        Uplink::Tunnel | Uplink::Sealed => wire::address(side),
    }
}

impl Stage for Apart {
    fn settles(&self) -> Result<()> {
        let mut hosts = self.hosts.iter();
        hosts.try_for_each(|(daemon, remains)| remains.wait_until_gone(daemon))
    }

    fn logs(&self) -> String {
        let hosts = self.hosts.iter();
        let logs = hosts.map(|(daemon, remains)| {
            let counters = remains.counters(daemon);
            format!("--- daemon\n{}\n{counters}", daemon.log_tail())
        });
        logs.collect()
    }
}
