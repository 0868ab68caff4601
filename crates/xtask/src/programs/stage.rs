//! The daemon, the two network namespaces, and how a program gets into them.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use vrdma_lab::daemon::{Adapter, Daemon, User};
use vrdma_lab::image::Image;
use vrdma_lab::namespace::Entry;
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Local, Place, Preload};
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{self, Wire, WireConfig};

use crate::counters;

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// With this host's files and processes.
    Host,
    /// With the image's files and its own processes.
    Container,
}

/// Overrides which verbs library is loaded.
const LIBRARY_VARIABLE: &str = "VRDMA_LIBRARY";

/// How long the daemon may take to take away what an ended program had.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(20);

/// Everything that rows share. Fields are in the order in which they must end.
pub(super) struct Stage {
    places: [[Local; 2]; 2],
    daemon: Daemon,
    _wire: Wire,
    vrdma: PathBuf,
    /// What is there without a program.
    idle: Vec<Value>,
    _folder: TempDir,
}

impl Stage {
    pub(super) fn start() -> Result<Self> {
        let image = Image::ensure()?;
        let program = crate::lab::daemon(true)?;
        let vrdma = crate::lab::built("vrdma-cli", "vrdma", true)?;
        let library = library()?;
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        let wire = Wire::create(&WireConfig::default(), folder.path(), Lifetime::Owned)?;
        let run_dir = folder.path().join("run");
        fs::create_dir(&run_dir)?;
        let adapters = [Side::A, Side::B].map(adapter);
        let daemon = Daemon::start(&program, &run_dir, &adapters, None, Lifetime::Owned)?;
        let places = [Side::A, Side::B].map(|side| {
            let host = wire.host(side);
            let preload = preload(host, side, &run_dir, &library);
            let output = |name: &str| folder.path().join(format!("{name}-{}", side.name()));
            [
                (output("host"), preload.clone().process()),
                (output("box"), preload.container(&image)),
            ]
        });
        let mut made = Vec::new();
        for (output, enter) in places.into_iter().flatten() {
            fs::create_dir(&output)?;
            made.push(Local::new(&output, enter));
        }
        let idle = counters::objects(&counters::asked(&daemon, &vrdma)?);
        Ok(Self {
            places: grouped(made)?,
            daemon,
            _wire: wire,
            vrdma,
            idle,
            _folder: folder,
        })
    }

    pub(super) fn place(&self, side: Side, inside: Inside) -> &dyn Place {
        let side = usize::from(side == Side::B);
        &self.places[side][usize::from(inside == Inside::Container)]
    }

    /// Waits until nothing of an ended program is left.
    pub(super) fn settles(&self) -> Result<()> {
        let deadline = Instant::now() + SETTLE_LIMIT;
        loop {
            let now = counters::objects(&counters::asked(&self.daemon, &self.vrdma)?);
            if now == self.idle {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "objects are left: {now:?} where there were {:?}",
                self.idle
            );
            thread::sleep(POLL);
        }
    }

    pub(super) fn log_tail(&self) -> String {
        self.daemon.log_tail()
    }
}

/// The library as the checkout has it now, unless the environment names one.
///
/// # Errors
/// When it does not build.
pub(crate) fn library() -> Result<PathBuf> {
    match env::var_os(LIBRARY_VARIABLE) {
        Some(path) => Ok(path.into()),
        None => crate::library::link(true),
    }
}

fn grouped(made: Vec<Local>) -> Result<[[Local; 2]; 2]> {
    let mut made = made.into_iter();
    let mut next = || made.next().context("two places a side were made");
    Ok([[next()?, next()?], [next()?, next()?]])
}

fn adapter(side: Side) -> Adapter {
    Adapter {
        name: side.name().to_owned(),
        mac: format!("02:00:00:00:00:{:02x}", 1 + u8::from(side == Side::B)),
        user: User::Processes(wire::address(side)),
    }
}

/// How programs of a host reach the adapter that is called like the side. They know the hosts' addresses as
/// `$A` and `$B`.
pub(crate) fn preload(host: &Entry, side: Side, run_dir: &Path, library: &Path) -> Preload {
    let addresses = [("A", Side::A), ("B", Side::B)];
    Preload {
        host: host.clone(),
        adapter: side.name().to_owned(),
        run_dir: run_dir.to_owned(),
        library: library.to_owned(),
        variables: addresses
            .map(|(name, side)| (name.to_owned(), wire::address(side).to_string()))
            .to_vec(),
    }
}
