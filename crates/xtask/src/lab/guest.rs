//! `lab guest`: a single guest, for work on a device without the daemon.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use vrdma_lab::guest::{Ethernet, Guest, GuestConfig, Kind};
use vrdma_lab::image::{Accelerator, Image};
use vrdma_lab::process::Lifetime;

use super::exit_code;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Socket of a vfio-user server that serves a PVRDMA device
    #[arg(long, value_name = "SOCKET")]
    vfio_user: Option<PathBuf>,
    /// Socket of a switch for QEMU's stream network; unplugged without
    #[arg(long, value_name = "SOCKET")]
    ethernet: Option<PathBuf>,
    /// The network card's address
    #[arg(long, default_value = "52:54:00:00:00:01")]
    mac: String,
    /// The guest's address
    #[arg(long, default_value = "10.10.0.1")]
    ip: Ipv4Addr,
    /// Virtual processors
    #[arg(long, default_value_t = 1, value_name = "N")]
    smp: u32,
    /// Memory
    #[arg(long, default_value_t = 512, value_name = "MiB")]
    mem: u32,
    /// How long the command may take
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    timeout: u64,
    /// Shell command to run
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let image = Image::ensure()?;
    let folder = tempfile::tempdir()?;
    let config = GuestConfig {
        name: "guest".to_owned(),
        kind: if arguments.vfio_user.is_some() {
            Kind::Vrdma
        } else {
            Kind::Tcp
        },
        address: arguments.ip,
        mac: arguments.mac.clone(),
        memory_mib: arguments.mem,
        processors: arguments.smp,
        ethernet: ethernet(arguments, folder.path()),
        vfio_user: arguments.vfio_user.clone(),
        second: None,
        host: None,
        verbs: None,
        mtu: None,
        host_cpus: None,
        run_dir: folder.path().to_owned(),
        variables: Vec::new(),
        lifetime: Lifetime::Owned,
        incoming: false,
        libvirt: false,
    };
    let guest = Guest::start(&image, Accelerator::choose(&image)?, &config)?;
    guest.wait_ready()?;
    let limit = Duration::from_secs(arguments.timeout);
    let output = guest.run_for(&arguments.command.join(" "), limit)?;
    print!("{}", output.stdout_text());
    eprint!("{}", output.stderr_text());
    if output.status != 0 {
        eprintln!("--- console\n{}", guest.console_tail());
    }
    Ok(exit_code(output.status))
}

/// Without a switch, the card's cable is unplugged: a datagram socket that nobody answers.
fn ethernet(arguments: &Arguments, run_dir: &std::path::Path) -> Ethernet {
    match &arguments.ethernet {
        Some(socket) => Ethernet::Switch(socket.clone()),
        None => Ethernet::Peer {
            own: run_dir.join("own"),
            other: run_dir.join("nobody"),
        },
    }
}
