//! The command line's grammar and its manual.

mod adapter;
mod limits;
mod migrate;
mod portgroup;
mod run;

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use vrdma_api::{Endpoint, Interface, MacAddress, Name, UnixName, Vni, paths};

pub(crate) use adapter::{
    AdapterCommand, LibvirtOptions, NewAddress, QemuOptions, RestoreOptions, SnapshotOptions,
};
pub(crate) use limits::{LimitChanges, LimitOptions};
pub(crate) use migrate::MigrateOptions;
pub(crate) use portgroup::PortgroupCommand;
use run::RUN_EXAMPLES;
pub(crate) use run::RunOptions;

use crate::relay::RelayOptions;
use crate::study::StudyOptions;

/// Asks and changes a running vrdmad
#[derive(Debug, Parser)]
#[command(name = "vrdma", version, long_about = ABOUT, after_long_help = AFTER, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// Control socket of the daemon
    ///
    /// Without this option: the first that exists of $XDG_RUNTIME_DIR/vrdma/vrdmad.sock and
    /// /run/vrdma/vrdmad.sock.
    #[arg(long, global = true, value_name = "PATH", env = "VRDMA_CONTROL")]
    socket: Option<PathBuf>,

    /// Print JSON
    ///
    /// The shapes are those of the daemon's control API. Failures are an object with the one field
    /// "error", on standard error.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const ABOUT: &str = "\
Asks and changes a running vrdmad.

vrdmad gives QEMU virtual machines RDMA adapters that the stock Linux driver vmw_pvrdma serves, with
no RDMA hardware and no driver of ours in the guest. Adapters are plugged into port groups; those of
one group reach each other, and nobody else.

Port groups and adapters that are added here live as long as the daemon does. Those that shall be
there after a restart belong into its configuration file; see vrdmad --help.";

const AFTER: &str = "\
Examples:
  vrdma doctor
  vrdma portgroup add blue
  vrdma adapter add vm1 --portgroup blue
  qemu-system-x86_64 -M q35 -accel kvm -cpu host ... $(vrdma adapter qemu-args vm1)
  vrdma stats vm1
  vrdma --json status | jq '.adapters[].name'

Exit status: 0 on success, 1 when the daemon refused or was not there, or when doctor found something
broken; 2 for wrong arguments.";

impl Arguments {
    /// The socket to use.
    pub(crate) fn socket(&self) -> PathBuf {
        let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        self.socket
            .clone()
            .unwrap_or_else(|| default_socket(runtime_dir.as_deref()))
    }
}

/// Prefers a user's own daemon to the system's. If there is neither, the error names the first socket.
fn default_socket(runtime_dir: Option<&Path>) -> PathBuf {
    let socket = |runtime_dir| paths::default_run_dir(runtime_dir).join(paths::SOCKET_FILE);
    let (own, machine) = (socket(runtime_dir), socket(None));
    if !own.exists() && machine.exists() {
        machine
    } else {
        own
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The daemon, its port groups and adapters in one look
    Status,
    /// Add, change, list, show and remove port groups
    #[command(subcommand)]
    Portgroup(PortgroupCommand),
    /// Add, list, show and remove adapters; print what QEMU or libvirt needs for one
    #[command(subcommand)]
    Adapter(AdapterCommand),
    /// Add, list, show and remove uplinks: where frames leave this host
    ///
    /// An uplink joins port groups of this host with those of others. A raw one puts adapters on the
    /// network of an interface, with their own addresses; it needs CAP_NET_RAW. A tunnel carries
    /// frames to other vrdmad over UDP (VXLAN) and needs no privilege.
    #[command(subcommand)]
    Uplink(UplinkCommand),
    /// Add, list and remove the other ends of tunnels
    #[command(subcommand)]
    Peer(PeerCommand),
    /// What the processes of each user use of the daemon's resources, and how much they may use
    #[command(subcommand)]
    User(UserCommand),
    /// Counters of all adapters, or everything that is counted for one
    ///
    /// Counters start at zero with the adapter and never go back. Objects are those that the guest has now: all zero
    /// when its programs have ended. The list of all adapters is followed by what users have of their quotas, as
    /// `vrdma user list` shows it.
    Stats {
        /// Only this adapter, in full
        adapter: Option<Name>,
    },
    /// Write the RoCEv2 packets of an adapter into a file for Wireshark
    ///
    /// Packets are written as they pass the uplinks, in both directions, without tunnel headers. Messages between
    /// adapters of one host are never packets and not in the file. Ends with Ctrl-C, or after --seconds.
    Trace(TraceOptions),
    /// Move a running VM with its adapter to another host, or to another QEMU and vrdmad of this host
    Migrate(MigrateOptions),
    /// Let the memory of a VM that arrives by vrdma migrate --memory direct: be written past its QEMU
    ///
    /// Runs at the destination, beside the QEMU that waits.
    Relay(RelayOptions),
    /// Make the daemon continue with the program that is installed now; connections see a pause
    ///
    /// The installed file that vrdmad was started from is first asked whether it can continue, with the configuration
    /// as it is now. If it cannot, nothing is changed; if it fails afterwards, the previous program serves again. Needs
    /// supervise = true. SIGHUP to the keeper, or systemctl reload, does the same.
    Upgrade,
    /// Run a program on an adapter of processes
    ///
    /// Our libibverbs and librdmacm are loaded in front of the system's, so that the program finds
    /// the device vrdma0. Without --adapter it gets an adapter of its own, which goes away with it.
    /// Where shards of the daemon have cores for themselves, the program runs on the others. The exit
    /// status is the program's. Setuid programs ignore preloaded libraries.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunOptions),
    /// Check what this machine can do, what is missing and how to fix it
    ///
    /// Looks at the daemon, its folder and limits, QEMU, KVM and the kernel; changes nothing, and exits with 1 if
    /// something is broken. Warnings are about speed or convenience.
    Doctor(DoctorOptions),
    /// Published studies of RDMA in VMs, reproduced on this machine side by side
    ///
    /// Runs the program vrdma-study, which is beside this one or in a folder of PATH.
    #[command(disable_help_flag = true)]
    Study(StudyOptions),
}

#[derive(Debug, Args)]
#[command(after_help = "Example: vrdma trace vm1 --pcap vm1.pcap --seconds 10")]
pub(crate) struct TraceOptions {
    /// The adapter
    pub(crate) adapter: Name,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: PathBuf,
    /// End after this many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) seconds: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UplinkCommand {
    /// Add an uplink until the daemon stops
    #[command(after_help = UPLINK_ADD_EXAMPLES)]
    Add(UplinkOptions),
    /// List the uplinks with their traffic
    List,
    /// Show one uplink, with what it dropped and why
    Show {
        /// The uplink
        name: Name,
    },
    /// Remove an uplink and its peers
    Remove {
        /// The uplink
        name: Name,
    },
}

const UPLINK_ADD_EXAMPLES: &str = "\
Examples:
  vrdma uplink add up0 --interface eth1
  vrdma uplink add up0 --listen 192.0.2.1 && vrdma peer add 192.0.2.2 --uplink up0";

#[derive(Debug, Args)]
pub(crate) struct UplinkOptions {
    /// 1 to 32 of a-z, 0-9, '_', '.', '-'
    pub(crate) name: Name,
    /// Raw: the network interface
    #[arg(
        long,
        value_name = "IF",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    pub(crate) interface: Option<Interface>,
    /// Tunnel: the address of this host, and the UDP port unless it is 4789
    #[arg(long, value_name = "IP[:PORT]")]
    pub(crate) listen: Option<Endpoint>,
    /// Tunnel: the file with the key that seals what goes to its peers, readable by its owner only: 64 hexadecimal
    /// digits, as `openssl rand -hex 32` prints them, the same on all hosts
    #[arg(long, value_name = "FILE", conflicts_with = "interface")]
    pub(crate) key: Option<PathBuf>,
    /// Faults to inject into its frames, for tests, such as loss=1%,delay=1ms,seed=7
    #[arg(long, value_name = "SPEC")]
    pub(crate) faults: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// One line for each user that has something or had lately, and one for all users together
    List,
    /// Everything that is counted for one user, beside its limits
    Show {
        /// Name or number of the user
        user: UnixName,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PeerCommand {
    /// Add a peer to a tunnel until the daemon stops
    #[command(after_help = "Example: vrdma peer add 192.0.2.2 --uplink up0")]
    Add {
        /// Where the other vrdmad listens: its address, and the UDP port unless it is 4789
        #[arg(value_name = "IP[:PORT]")]
        address: Endpoint,
        /// The tunnel
        #[arg(long)]
        uplink: Name,
        /// A station that may be behind the peer; may be repeated. If given, frames of other stations are not accepted
        /// from the peer, nor frames of this station from elsewhere, so that nobody can draw its frames away
        #[arg(long = "station", value_name = "MAC")]
        stations: Vec<MacAddress>,
        /// A VXLAN network that the peer takes part in; may be repeated. Without it, those of all port groups
        #[arg(long = "vni", value_name = "VNI")]
        vnis: Vec<Vni>,
        /// The peer sends from other ports than it listens at: it is behind a NAT, or not a vrdmad. Without this, only
        /// packets from exactly its port are accepted
        #[arg(long)]
        any_port: bool,
        /// The file with the key that seals what goes to the peer, if not that of the tunnel
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// List the peers of all tunnels
    List,
    /// Remove a peer from a tunnel
    Remove {
        /// Where the other vrdmad listens
        #[arg(value_name = "IP[:PORT]")]
        address: Endpoint,
        /// The tunnel
        #[arg(long)]
        uplink: Name,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    /// The QEMU to look at
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "qemu-system-x86_64",
        env = "VRDMA_QEMU"
    )]
    pub(crate) qemu: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_is_explained() {
        explained(&Arguments::command());
    }

    fn explained(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for argument in command.get_arguments() {
            assert!(
                argument.get_help().is_some(),
                "{} {}",
                command.get_name(),
                argument.get_id()
            );
        }
        command.get_subcommands().for_each(explained);
    }

    #[test]
    fn the_machines_daemon_is_asked_when_there_is_no_own() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("vrdma/vrdmad.sock");
        std::fs::create_dir(folder.path().join("vrdma")).unwrap();
        std::fs::write(&own, "").unwrap();
        assert_eq!(default_socket(Some(folder.path())), own);
        assert_eq!(default_socket(None), Path::new("/run/vrdma/vrdmad.sock"));
    }
}
