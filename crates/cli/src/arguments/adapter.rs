//! The grammar of `vrdma adapter`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, Subcommand};
use vrdma_api::{AdapterKind, DoorbellMode, MacAddress, Name, UnixName, Weight};

use super::limits::{LimitChanges, LimitOptions};
use crate::qemu::{MemorySize, Slot};

#[derive(Debug, Subcommand)]
pub(crate) enum AdapterCommand {
    /// Add an adapter until the daemon stops
    #[command(
        after_help = "Example: vrdma adapter add vm1 --portgroup blue --mac 52:54:00:00:00:01"
    )]
    Add {
        /// 1 to 32 of a-z, 0-9, '_', '.', '-'
        name: Name,
        /// The port group to plug it into
        #[arg(long)]
        portgroup: Name,
        /// MAC address; one derived from the name if absent
        #[arg(long)]
        mac: Option<MacAddress>,
        /// How the guest rings doorbells: mapped, or trapped (slow, for finding faults)
        #[arg(long, default_value_t)]
        doorbells: DoorbellMode,
        /// What uses the adapter: vm, process for programs of this host and its containers, or tap for the host's own
        /// IP stack (an interface named as the adapter; needs CAP_NET_ADMIN)
        #[arg(long, default_value_t)]
        kind: AdapterKind,
        /// IP address. Kind process: its address, a link-local one if absent. Kind tap: with the network's 24 bits
        /// (IPv6: 64), none if absent. Kind vm: an address that its guest is kept to, which may be repeated, or learn
        /// for the first that it uses; any if absent
        #[arg(long, value_name = "IP|learn")]
        ip: Vec<NewAddress>,
        /// Shard of the data path that serves the adapter; that with the fewest adapters if absent
        #[arg(long, value_name = "N", value_parser = shard_number, allow_hyphen_values = true)]
        shard: Option<u16>,
        /// The VM is on another host, from which a migration is to bring it; that host has the addresses until then
        #[arg(long)]
        away: bool,
        #[command(flatten)]
        limits: LimitOptions,
        /// Weight of its turns beside those of others of its port group and shard, 1 to 100
        #[arg(long, default_value_t, value_name = "N")]
        weight: Weight,
        /// User of the host who may use the adapter besides the daemon's own, by name or number; may be repeated.
        /// Without users and groups, those of the port group
        #[arg(long = "user", value_name = "USER")]
        users: Vec<UnixName>,
        /// Group whose members may use the adapter; may be repeated
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<UnixName>,
    },
    /// Change an adapter's limits, guarantee, weight, addresses or users while it is used, until the daemon stops
    ///
    /// The users, groups or addresses that you name replace all that were named before. What is open stays open.
    #[command(after_long_help = SET_EXAMPLES)]
    #[command(group = ArgGroup::new("change").required(true).multiple(true))]
    Set {
        /// The adapter
        name: Name,
        #[command(flatten)]
        limits: LimitChanges,
        /// Weight of its turns beside those of others of its port group and shard, 1 to 100
        #[arg(long, value_name = "N", group = "change")]
        weight: Option<Weight>,
        /// IP address that the guest of a VM is kept to; may be repeated; or learn, for the first IPv4 and the first
        /// IPv6 address that it uses from now on; or none, to allow any
        #[arg(long, value_name = "IP|learn|none", group = "change")]
        ip: Vec<NewAddress>,
        /// User of the host who may use the adapter besides the daemon's own, by name or number; may be repeated; or
        /// none
        #[arg(long = "user", value_name = "USER", group = "change")]
        users: Vec<UnixName>,
        /// Group whose members may use the adapter; may be repeated; or none
        #[arg(long = "group", value_name = "GROUP", group = "change")]
        groups: Vec<UnixName>,
    },
    /// Have another shard of the data path serve an adapter
    ///
    /// Its programs, its guest and their connections go on; `vrdma status` shows how busy the shards
    /// are.
    #[command(after_help = "Example: vrdma adapter move vm1 --shard 1")]
    Move {
        /// The adapter
        name: Name,
        /// Number of the shard
        #[arg(long, value_name = "N", value_parser = shard_number, allow_hyphen_values = true)]
        shard: u16,
    },
    /// List the adapters
    List,
    /// Show one adapter
    Show {
        /// The adapter
        name: Name,
        /// The adapter's present state, for bug reports: queue pairs with states, PSNs and peers, completion queues,
        /// regions, counters
        ///
        /// No keys, no memory addresses and nothing that was sent: a reader learns who talks with whom, and cannot
        /// reach any memory with it. The first 1024 objects of each kind.
        #[arg(long)]
        state: bool,
    },
    /// Remove an adapter; its guest sees a device that does not answer
    Remove {
        /// The adapter
        name: Name,
    },
    /// Write a snapshot of a paused VM: its adapter into one file, QEMU's memory and devices into another
    ///
    /// The adapter keeps working, except for the milliseconds in which its context is made; QEMU's cont lets the VM run
    /// afterwards. If saving fails, it is undone, and files of these names are as they were.
    #[command(after_long_help = SAVE_EXAMPLES)]
    Save(SnapshotOptions),
    /// Let a VM continue from its snapshot
    ///
    /// QEMU must have been started with the options that the VM had and -S -incoming defer. The VM is paused
    /// afterwards: QEMU's cont lets it run. Its connections end with an error, since their other ends have gone on.
    #[command(after_long_help = RESTORE_EXAMPLES)]
    Restore(RestoreOptions),
    /// Print the QEMU options for a VM with this adapter
    ///
    /// QEMU 11 or later. The options give the VM shared memory (the daemon reads and writes it
    /// directly), a vmxnet3 card as function 0 of a slot, and the adapter as function 1, where the
    /// guest's driver looks for it.
    #[command(after_long_help = QEMU_ARGS_EXAMPLES)]
    QemuArgs(QemuOptions),
    /// Print what a libvirt domain needs for this adapter
    ///
    /// Merge it into the domain with `virsh edit`: the name space belongs to the `<domain>` element,
    /// `<memoryBacking>` and `<qemu:commandline>` are its children. The domain's user must be able to
    /// open the sockets (`vrdma adapter show`).
    LibvirtXml(LibvirtOptions),
}

/// An address to keep a guest to, or a word in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NewAddress {
    One(IpAddr),
    Learned,
    None,
}

impl FromStr for NewAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "learn" => Ok(Self::Learned),
            _ => text
                .parse()
                .map(Self::One)
                .map_err(|_| "write an IP address such as 10.0.0.5, learn, or none"),
        }
    }
}

const SET_EXAMPLES: &str = "\
Examples:
  vrdma adapter set vm1 --limit-out 10gbit --limit-in-ops 100k
  vrdma adapter set vm1 --limit-out none --weight 3
  vrdma adapter set c1 --user alice --user 1001 --group rdma
  vrdma adapter set c1 --user none             # those of the port group, if it names any";

const QEMU_ARGS_EXAMPLES: &str = "\
Examples:
  qemu-system-x86_64 -M q35 -accel kvm disk.qcow2 $(vrdma adapter qemu-args vm1 --memory 4G)
  vrdma adapter qemu-args vm1 --quote          # to paste into a script
  vrdma adapter qemu-args vm1b --slot 6 --without-memory   # a second adapter of the same VM
  vrdma adapter qemu-args vm1 --json           # a list of strings, for programs";

#[derive(Debug, Args)]
pub(crate) struct QemuOptions {
    /// The adapter
    pub(crate) name: Name,
    /// Memory of the VM, with K, M, G or T
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    pub(crate) memory: MemorySize,
    /// Leave memory out: for a second adapter, or a VM that has shared memory already
    #[arg(long, conflicts_with = "memory")]
    pub(crate) without_memory: bool,
    /// PCI slot of the two functions, 1 to 30
    #[arg(long, default_value = "5")]
    pub(crate) slot: Slot,
    /// Quote for a shell and break lines
    #[arg(long)]
    pub(crate) quote: bool,
}

const SAVE_EXAMPLES: &str = "\
FILE holds the keys of the guest's memory: only its owner can read it, and it belongs into no bug report
(vrdma adapter show NAME --state is for those).

Example: first QMP's {\"execute\": \"stop\"}, then
  vrdma adapter save vm1 vm1.adapter --qmp /run/vm1.qmp --memory vm1.memory
then copy the VM's disks, and {\"execute\": \"cont\"}.";

const RESTORE_EXAMPLES: &str = "\
Example: first end the VM's QEMU and put the copies of its disks back, then
  qemu-system-x86_64 ... $(vrdma adapter qemu-args vm1) -qmp unix:/run/vm1.qmp,server=on,wait=off -S -incoming defer
  vrdma adapter restore vm1 vm1.adapter --qmp /run/vm1.qmp --memory vm1.memory
then QMP's {\"execute\": \"cont\"}.";

#[derive(Debug, Args)]
pub(crate) struct SnapshotOptions {
    /// The adapter
    pub(crate) name: Name,
    /// The adapter's file
    pub(crate) file: PathBuf,
    /// QMP socket of the VM's QEMU (-qmp unix:PATH,server=on,wait=off)
    #[arg(long, value_name = "PATH")]
    pub(crate) qmp: PathBuf,
    /// QEMU's file, which QEMU itself writes or reads
    #[arg(long, value_name = "FILE")]
    pub(crate) memory: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreOptions {
    #[command(flatten)]
    pub(crate) snapshot: SnapshotOptions,
    /// Keep the VM's connections
    ///
    /// Right only if all their other ends are VMs that were paused when the first of their snapshots was taken, and
    /// that are all restored, too. A peer that has gone on takes new messages for old ones, which are then lost, or it
    /// gets old ones for new. Without this option connections end with IBV_EVENT_QP_FATAL, and programs connect anew.
    #[arg(long)]
    pub(crate) keep_connections: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LibvirtOptions {
    /// The adapter
    pub(crate) name: Name,
    /// PCI slot of the two functions, 1 to 30; one that the domain does not use
    #[arg(long, default_value = "5")]
    pub(crate) slot: Slot,
    /// Add a QMP socket for `vrdma migrate`, since libvirt keeps its own to itself
    ///
    /// QEMU creates it, as the user that libvirt runs it as: name a folder where that user may.
    #[arg(long, value_name = "PATH")]
    pub(crate) qmp: Option<PathBuf>,
    /// For the destination of `vrdma migrate`: QEMU waits for the VM
    ///
    /// Start the domain with `virsh create --paused`.
    #[arg(long, requires = "qmp")]
    pub(crate) incoming: bool,
}

/// Parses a shard's number. Only the daemon knows whether there is such a shard.
fn shard_number(text: &str) -> Result<u16, String> {
    text.parse()
        .map_err(|_| "write its number: `vrdma status` lists the shards, from 0 on".to_owned())
}
