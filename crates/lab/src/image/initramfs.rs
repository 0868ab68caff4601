//! The first files of a guest: the programs that mount the image's disk, and everything that changes more often than
//! the image (agent, scripts, settings).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Image;
use super::archive::Archive;

const INIT: &str = include_str!("../../guest/init");
const PROBE: &str = include_str!("../../guest/probe");
const RC: &str = include_str!("../../guest/rc");
const UP: &str = include_str!("../../guest/up");

/// An initramfs in memory.
pub(crate) struct Initramfs {
    archive: Archive,
}

impl Initramfs {
    /// The initramfs of a guest: mounts the image's disk and starts the agent there, with `environment` (lines of
    /// `NAME=value`) for every command.
    pub(crate) fn guest(image: &Image, agent: &Path, environment: &str) -> Result<Self> {
        let mut initramfs = Self::early(image, INIT)?;
        let agent = fs::read(agent).with_context(|| format!("cannot read {}", agent.display()))?;
        let archive = &mut initramfs.archive;
        archive.folder("lab");
        archive.program("lab/agent", &agent);
        archive.program("lab/rc", RC.as_bytes());
        archive.program("lab/up", UP.as_bytes());
        archive.program("lab/environment", environment.as_bytes());
        Ok(initramfs)
    }

    /// The initramfs of the probe: reports that it runs, and powers off.
    pub(super) fn probe(image: &Image) -> Result<Self> {
        Self::early(image, PROBE)
    }

    pub(crate) fn write(self, path: &Path) -> Result<()> {
        fs::write(path, self.archive.finish())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn early(image: &Image, init: &str) -> Result<Self> {
        let mut archive = Archive::default();
        archive.program("init", init.as_bytes());
        archive.folder("early");
        for entry in fs::read_dir(image.root("boot/early"))? {
            let entry = entry?;
            let name = entry.file_name().into_string().unwrap_or_default();
            archive.program(&format!("early/{name}"), &fs::read(entry.path())?);
        }
        Ok(Self { archive })
    }
}
