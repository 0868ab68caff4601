//! The grammar of `vrdma migrate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use vrdma_api::{Name, Rate};
use vrdma_migration::Copying;

const EXAMPLES: &str = "\
--socket names the daemon that the VM leaves. A second QEMU waits for it, started with the same options and
-S -incoming defer. What is not as it must be is told before anything is changed. What fails before the source has
given the adapter up is taken back and the VM runs on there, also after Ctrl-C. At the end the source's QEMU quits.
A migration whose vrdma migrate was killed is taken back by the same command with --recover.

Examples:
  vrdma migrate vm1 --to /run/b/vrdmad.sock --qmp a.qmp --to-qmp b.qmp --memory tcp:192.0.2.2:4444 --dry-run
  ssh -fN -L b.sock:/run/vrdma/vrdmad.sock -L b.qmp:/run/vm1.qmp HOST-B
  vrdma migrate vm1 --to b.sock --qmp /run/vm1.qmp --to-qmp b.qmp --memory tcp:192.0.2.2:4444
  vrdma migrate vm2 vm2b --to b.sock --qmp /run/vm2.qmp --to-qmp b.qmp --memory tcp:192.0.2.2:4444";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MigrateOptions {
    /// All adapters of the VM; both daemons must have each of them, with one MAC address and port group
    #[arg(required = true, value_name = "ADAPTER")]
    pub(crate) adapters: Vec<Name>,
    /// Control socket of the daemon at the destination
    ///
    /// A file of this host: `ssh -L` forwards that of another host, and its QMP socket as well.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) to: PathBuf,
    /// QMP socket of the QEMU that runs the VM (-qmp unix:PATH,server=on,wait=off)
    #[arg(long, value_name = "PATH")]
    pub(crate) qmp: PathBuf,
    /// QMP socket of the QEMU that waits for the VM, started with the same options and -S -incoming defer
    #[arg(long, value_name = "PATH")]
    pub(crate) to_qmp: PathBuf,
    /// How the memory is sent: tcp:HOST:PORT, unix:PATH, rdma:HOST:PORT or direct:HOST:PORT
    ///
    /// The first three are migration URIs of QEMU itself. For rdma: both QEMUs run under vrdma run, and HOST is the
    /// address of the adapter that the waiting one has for itself. With direct: the memory is written from guest to
    /// guest, past both QEMUs, by relays: the one at the destination listens there (vrdma relay), the other one is
    /// started here.
    #[arg(long, value_name = "URI")]
    memory: String,
    /// For direct: the adapter of kind process by which the memory leaves this host
    #[arg(long, value_name = "NAME")]
    pub(crate) relay_adapter: Option<Name>,
    /// Most memory that is sent, in bits a second, such as 10gbit; as fast as possible if absent
    #[arg(long, value_name = "RATE")]
    bandwidth_limit: Option<Rate>,
    /// Parallel streams for the memory, with tcp: and unix:; one if absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    channels: Option<u8>,
    /// Slow the VM down, more and more, if it writes its memory faster than it is sent
    #[arg(long)]
    auto_converge: bool,
    /// Let the VM run at the destination after one pass over its memory; what it has written since then follows
    ///
    /// For a VM that writes its memory faster than it is sent. Its adapters continue when all of it has arrived, and
    /// until then their peers wait. A failure in that time cannot be undone: part of the VM is on each host.
    #[arg(long, conflicts_with_all = ["verify", "channels"])]
    post_copy: bool,
    /// How long the VM may be paused for the rest of its memory, in milliseconds; QEMU's own limit if absent
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=2_000_000))]
    downtime_limit: Option<u64>,
    /// Compare the memory on both hosts before the source gives the adapter up
    ///
    /// The VM is paused meanwhile, some 0.3 s for each GiB. If the memory differs, the VM continues at the source.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Check the conditions of a migration, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Undo a migration that nothing drives any more: the VM continues at the source with its connections
    ///
    /// Use the arguments of the vrdma migrate that was killed; the destination may be gone. It is refused if the source
    /// has already given up the adapter. The destination's QEMU is of no use afterwards: end it. A VM that has moved by
    /// post-copy stays there, and the remaining steps are done.
    #[arg(
        long,
        conflicts_with_all = ["dry_run", "downtime_limit", "bandwidth_limit", "auto_converge", "verify"]
    )]
    pub(crate) recover: bool,
}

impl MigrateOptions {
    pub(crate) fn copying(&self) -> Copying {
        let bytes = |rate: Rate| rate.bits().get() / 8;
        Copying {
            uri: self.memory.clone(),
            downtime_limit: self.downtime_limit.map(Duration::from_millis),
            bandwidth_limit: self.bandwidth_limit.map(bytes),
            auto_converge: self.auto_converge,
            post_copy: self.post_copy,
            channels: self.channels,
            relay: None,
        }
    }
}
