//! The same programs where the daemon's data path has a core for itself, started by `vrdma run`.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use anyhow::Result;
use tempfile::TempDir;
use vrdma_lab::daemon::Daemon;
use vrdma_lab::namespace::Entry;
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Local, Place};
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{self, WireConfig, WiredHosts};

use crate::programs::{adapter, library};

/// A daemon and two hosts. Fields are in the order in which they must end.
pub(super) struct Pinned {
    places: [Local; 2],
    _daemon: Daemon,
    _wire: WiredHosts,
    _folder: TempDir,
}

impl Pinned {
    /// `None` if there is only one core.
    pub(super) fn start() -> Result<Option<Self>> {
        let Some(core) = last_of_several(&fs::read_to_string("/proc/self/status")?) else {
            return Ok(None);
        };
        let program = crate::lab::daemon(true)?;
        let vrdma = crate::lab::built("vrdma", true)?;
        let library = library()?;
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        let wire = WiredHosts::create(&WireConfig::default(), folder.path(), Lifetime::Owned)?;
        let run_dir = folder.path().join("run");
        fs::create_dir(&run_dir)?;
        let adapters = [Side::A, Side::B].map(adapter);
        let daemon = Daemon::start_with_core(core, &program, &run_dir, &adapters, Lifetime::Owned)?;
        let place = |side: Side| {
            let output = folder.path().join(side.name());
            fs::create_dir(&output)?;
            let socket = daemon.control_socket();
            let run: [OsString; 8] = [
                (&vrdma).into(),
                "run".into(),
                "--adapter".into(),
                side.name().into(),
                "--socket".into(),
                socket.into(),
                "--library".into(),
                (&library).into(),
            ];
            let host = wire.host(side).clone();
            anyhow::Ok(Local::new(&output, move |words| enter(&host, &run, words)))
        };
        Ok(Some(Self {
            places: [place(Side::A)?, place(Side::B)?],
            _daemon: daemon,
            _wire: wire,
            _folder: folder,
        }))
    }

    pub(super) fn places(&self) -> [&dyn Place; 2] {
        self.places.each_ref().map(|place| place as &dyn Place)
    }
}

/// Runs a shell's words on a host, by `vrdma run`.
fn enter(host: &Entry, run: &[OsString], words: &str) -> Command {
    let known = [("A", Side::A), ("B", Side::B)];
    let mut env = Command::new("env");
    env.args(known.map(|(name, side)| format!("{name}={}", wire::address(side))))
        .args(run)
        .args(["--", "sh", "-c", words]);
    host.command(&env)
}

/// The last of the cores that this program may use, if there are several.
fn last_of_several(status: &str) -> Option<u32> {
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let (_, last) = list.trim().rsplit_once([',', '-'])?;
    last.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_is_none_to_spare() {
        let of =
            |list| last_of_several(&format!("Name:\tx\nCpus_allowed_list:\t{list}\nMems:\t0\n"));
        assert_eq!(
            [of("0"), of("0-1"), of("0,2-5,7")],
            [None, Some(1), Some(7)]
        );
        assert_eq!(last_of_several("Name:\tx\n"), None);
    }
}
