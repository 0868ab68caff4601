//! A daemon and two hosts, on which programs of the roots run.
//!
//! ```text
//!   host-a                                   host-b
//!   program with a root's files              program with a root's files
//!      | libibverbs.so.1 = ours                 |
//!      `------- process socket ---> vrdmad <----'
//!      /run/shared: a folder of both
//! ```

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use tempfile::TempDir;
use vrdma_lab::daemon::{Daemon, services};
use vrdma_lab::image::{Contents, Root};
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Local, Place};
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{Wire, WireConfig};

use super::super::preload::{library, preload};
use super::super::remains::Remains;
use super::super::stage::{adapter, both};
use super::table::Home;

/// The folder of both hosts, as programs see it.
const SHARED: &str = "/run/shared";

/// Fields are in the order in which they must end.
pub(super) struct Stage {
    homes: BTreeMap<Home, (Root, [Local; 2])>,
    daemon: Daemon,
    remains: Remains,
    _wire: Wire,
    _folder: TempDir,
}

impl Stage {
    /// With the roots that the rows need.
    pub(super) fn start(homes: impl Iterator<Item = Home>) -> Result<Self> {
        let roots = homes.map(|home| Ok((home, Root::ensure(&contents(home))?)));
        let roots: BTreeMap<Home, Root> = roots.collect::<Result<_>>()?;
        let program = crate::lab::daemon(true)?;
        let library = library()?;
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        let wire = Wire::create(&WireConfig::default(), folder.path(), Lifetime::Owned)?;
        let [run_dir, shared] = ["run", "shared"].map(|name| folder.path().join(name));
        fs::create_dir(&run_dir)?;
        fs::create_dir(&shared)?;
        let adapters = [Side::A, Side::B].map(adapter);
        let daemon = Daemon::start(&program, &run_dir, &adapters, None, Lifetime::Owned)?;
        let remains = Remains::of_idle(&daemon)?;
        let place = |home: Home, root: &Root, side: Side| -> Result<Local> {
            let output = folder.path().join(format!("{home:?}-{}", side.name()));
            fs::create_dir(&output)?;
            let mut preload = preload(wire.host(side), side, &run_dir, &library);
            let seen = ("SHARED".to_owned(), SHARED.to_owned());
            preload.variables.push(seen);
            let services = services(&run_dir, move |adapter| adapter == side.name())?;
            let enter = preload.process_of(&root.path(), &[(shared.clone(), SHARED)]);
            Ok(Local::new(&output, enter).offering(services))
        };
        let places = |(home, root): (Home, Root)| {
            let locals = both(|side| place(home, &root, side))?;
            anyhow::Ok((home, (root, locals)))
        };
        let homes = roots.into_iter().map(places).collect::<Result<_>>()?;
        Ok(Self {
            homes,
            daemon,
            remains,
            _wire: wire,
            _folder: folder,
        })
    }

    /// The files that a row's programs see.
    pub(super) fn root(&self, home: Home) -> Result<&Root> {
        let (root, _) = self.home(home)?;
        Ok(root)
    }

    /// Server's and client's.
    pub(super) fn places(&self, home: Home) -> Result<[&dyn Place; 2]> {
        let (_, places) = self.home(home)?;
        Ok(places.each_ref().map(|place| place as &dyn Place))
    }

    fn home(&self, home: Home) -> Result<&(Root, [Local; 2])> {
        let found = self.homes.get(&home);
        found.with_context(|| format!("nobody made the root {home:?}"))
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

fn contents(home: Home) -> Contents {
    let packages = match home {
        Home::Packaged => include_str!("packaged.packages"),
    };
    Contents {
        name: format!("programs-{home:?}").to_lowercase(),
        packages: packages.split_whitespace().map(str::to_owned).collect(),
        script: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_root_has_a_name_and_packages() {
        let contents = contents(Home::Packaged);
        assert_eq!(contents.name, "programs-packaged");
        assert!(contents.packages.contains(&"tgt".to_owned()));
    }
}
