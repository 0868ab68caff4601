//! Programs of the host with its own libraries, over its own adapter.

use std::process::Command;

use anyhow::{Result, bail};
use vrdma_lab::daemon::Daemon;
use vrdma_lab::pair::RunDir;
use vrdma_lab::place::{Local, Place};
use vrdma_lab::process::Lifetime;

use super::Stage;
use crate::cell::{Endpoint, Setting};
use crate::programs::Own;

pub(super) struct Host {
    place: Local,
    _folder: RunDir,
}

impl Host {
    pub(super) fn start() -> Result<Self> {
        let folder = RunDir::create(Lifetime::Owned)?;
        let place = Local::new(folder.path(), |words| {
            let mut shell = Command::new("sh");
            shell.args(["-c", words]).env("A", "127.0.0.1");
            shell
        });
        Ok(Self {
            place,
            _folder: folder,
        })
    }
}

impl Stage for Host {
    fn places(&self, _endpoint: Endpoint, _tenant: u8) -> [&dyn Place; 2] {
        [&self.place, &self.place]
    }

    fn prepare(&self, _setting: Setting, _tenant: u8, own: Own) -> Result<String> {
        bail!("{} runs on adapters of vrdmad only", own.name())
    }

    fn daemons(&self) -> Vec<&Daemon> {
        Vec::new()
    }

    fn logs(&self) -> String {
        String::new()
    }
}
