//! A daemon and two hosts, on which programs of the roots run.
//!
//! ```text
//!   host-a                                   host-b
//!   container with the root's files          container with the root's files
//!      | libibverbs.so.1 = ours                 |
//!      `------- process socket ---> vrdmad <----'
//!      /run/shared: a folder of both
//! ```
//!
//! They are containers because what a row leaves behind ends with them, and trusted because most programs are.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use tempfile::TempDir;
use vrdma_lab::daemon::{Daemon, services};
use vrdma_lab::image::{Contents, Release, Root};
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Local, Place};
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{WireConfig, WiredHosts};

use super::super::preload::{library, preload};
use super::super::remains::Remains;
use super::super::stage::{adapter, both};
use super::{crates, origin};

/// Folders as programs see them, and the variables that name them: a folder shared by both hosts, Python's wheels,
/// tests of Rust libraries, programs built from sources, and scripts of the rows.
const SHARED: (&str, &str) = ("SHARED", "/run/shared");
const WHEELS: (&str, &str) = ("WHEELS", "/run/wheels");
const CRATES: (&str, &str) = ("CRATES", "/run/crates");
const BUILT: (&str, &str) = ("BUILT", "/run/built");
const SCRIPTS: (&str, &str) = ("SCRIPTS", "/run/scripts");

/// The folder of the rows' scripts.
const OWN_SCRIPTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/programs/third_party/scripts"
);

/// Fields are in the order in which they must end.
pub(super) struct Stage {
    places: [Local; 2],
    root: Root,
    daemon: Daemon,
    remains: Remains,
    _wire: WiredHosts,
    _folder: TempDir,
}

impl Stage {
    /// Sets the stage up. First makes what is missing: the root, and the programs built from sources if a row needs
    /// them.
    pub(super) fn start(with_built: bool) -> Result<Self> {
        let root = Root::ensure(&contents())?;
        let program = crate::lab::daemon(true)?;
        let library = library()?;
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        let wire = WiredHosts::create(&WireConfig::default(), folder.path(), Lifetime::Owned)?;
        let [run_dir, shared] = ["run", "shared"].map(|name| folder.path().join(name));
        fs::create_dir(&run_dir)?;
        fs::create_dir(&shared)?;
        let [wheels, crates] = [origin::wheels()?, crates::crates()?];
        fs::create_dir_all(&wheels)?;
        fs::create_dir_all(&crates)?;
        let mut seen: Vec<(PathBuf, (&str, &str))> = vec![
            (shared, SHARED),
            (wheels, WHEELS),
            (crates, CRATES),
            (OWN_SCRIPTS.into(), SCRIPTS),
        ];
        if with_built {
            seen.push((origin::built()?.path(), BUILT));
        }
        let adapters = [Side::A, Side::B].map(adapter);
        // Containers of the daemon's own user are then as fast as other programs.
        let trusting = "trust_own_user = true";
        let daemon = Daemon::start_with(trusting, &program, &run_dir, &adapters, Lifetime::Owned)?;
        let remains = Remains::of_idle(&daemon)?;
        let places = both(|side| {
            let output = folder.path().join(side.name());
            fs::create_dir(&output)?;
            let mut preload = preload(wire.host(side), side, &run_dir, &library);
            let named = seen.iter().map(|(_, (name, inside))| (name, inside));
            let named = named.map(|(name, inside)| ((*name).to_owned(), (*inside).to_owned()));
            preload.variables.extend(named);
            let binds = seen.iter();
            let binds = binds.map(|(outside, (_, inside))| (outside.clone(), *inside));
            let binds: Vec<(PathBuf, &str)> = binds.collect();
            let services = services(&run_dir, move |adapter| adapter == side.name())?;
            let enter = preload.container_with(&root.path(), &binds);
            Ok(Local::new(&output, enter).offering(services))
        })?;
        Ok(Self {
            places,
            root,
            daemon,
            remains,
            _wire: wire,
            _folder: folder,
        })
    }

    /// The root with the files that programs see.
    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// The places of the server and of the client.
    pub(super) fn places(&self) -> [&dyn Place; 2] {
        self.places.each_ref().map(|place| place as &dyn Place)
    }
}

impl super::super::Stage for Stage {
    fn settles(&self) -> Result<()> {
        self.remains.wait_until_gone(&self.daemon)
    }

    fn logs(&self) -> String {
        let counters = self.remains.counters(&self.daemon);
        format!("--- daemon\n{}\n{counters}", self.daemon.log_tail())
    }
}

fn contents() -> Contents {
    let packages = include_str!("root.packages").split_whitespace();
    Contents {
        name: "programs".to_owned(),
        release: Release::Stable,
        packages: packages.map(str::to_owned).collect(),
    }
}
