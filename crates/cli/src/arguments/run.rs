//! `vrdma run`

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use vrdma_api::Name;

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  vrdma run --adapter c1 -- ibv_devinfo
  vrdma run --portgroup blue --ip 10.0.0.7 -- ib_send_lat -x 1";

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The adapter, of kind process
    #[arg(long, conflicts_with_all = ["portgroup", "ip"])]
    pub(crate) adapter: Option<Name>,
    /// Port group of an adapter of its own; the only one if absent
    #[arg(long)]
    pub(crate) portgroup: Option<Name>,
    /// IP address of an adapter of its own; a link-local one if absent
    #[arg(long)]
    pub(crate) ip: Option<IpAddr>,
    /// Let the program and others of its user that were started so reach each other's memory
    ///
    /// READs and WRITEs between them are then carried out by the process that asks for them, without vrdmad. It checks
    /// keys and rights once and takes the grant back when they end. A program gets descriptors of all the memory of
    /// those it is connected to: only for programs that trust each other. Such traffic is in no statistics and no
    /// trace.
    #[arg(long)]
    pub(crate) fast_local: bool,
    /// Leave registered memory where it is: several times slower
    ///
    /// Without this option the whole pages of registered memory become shared pages of a file that belongs to the
    /// program, at the same addresses and while other threads use them. vrdmad then copies without asking the kernel.
    /// `vrdma stats NAME` tells which regions were moved, and why others were not.
    #[arg(long)]
    pub(crate) no_adopt: bool,
    /// The library or its folder, unless it is beside this program
    #[arg(long, value_name = "PATH")]
    pub(crate) library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}
