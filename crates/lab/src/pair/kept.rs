//! The one pair of this user that was left running.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::Side;
use crate::guest::Control;
use crate::image::cache_folder;
use crate::process::signal_group;

/// A pair that another process started and left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPair {
    run_dir: PathBuf,
    processes: Vec<u32>,
}

impl KeptPair {
    pub(super) fn record(run_dir: &Path, processes: Vec<u32>) -> Result<Self> {
        let kept = Self {
            run_dir: run_dir.to_owned(),
            processes,
        };
        let path = record_path()?;
        fs::write(&path, serde_json::to_vec(&kept)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(kept)
    }

    /// The pair that is running, if there is one.
    ///
    /// # Errors
    /// When the record is not readable.
    pub fn find() -> Result<Option<Self>> {
        let Ok(record) = fs::read(record_path()?) else {
            return Ok(None);
        };
        let kept: Self =
            serde_json::from_slice(&record).context("the record of the kept pair is broken")?;
        Ok(kept
            .processes
            .iter()
            .any(|&process| kept.owns(process))
            .then_some(kept))
    }

    /// Connects to one of the pair's guests.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub fn guest(&self, side: Side) -> Result<Control> {
        Control::attach(&self.run_dir, side.name())
    }

    /// Folder of all its sockets and logs.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// Ends its processes and removes its folder.
    ///
    /// # Errors
    /// When the folder cannot be removed.
    pub fn stop(&self) -> Result<()> {
        for &process in self.processes.iter().filter(|&&process| self.owns(process)) {
            signal_group(process, Signal::KILL);
        }
        fs::remove_dir_all(&self.run_dir).context("cannot remove the pair's folder")?;
        fs::remove_file(record_path()?).context("cannot remove the pair's record")
    }

    /// Whether a process is one of the pair's: its number may have been reused since, but all of the pair's processes
    /// have the folder on their command line.
    fn owns(&self, process: u32) -> bool {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&*self.run_dir.to_string_lossy())
    }
}

fn record_path() -> Result<PathBuf> {
    Ok(cache_folder()?.join("kept-pair.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_of_the_folder_are_its_own() {
        let own = fs::read("/proc/self/cmdline").unwrap();
        let own = String::from_utf8_lossy(&own[..own.len() - 1])
            .split('\0')
            .next()
            .unwrap()
            .to_owned();
        let kept = |run_dir: &str| KeptPair {
            run_dir: run_dir.into(),
            processes: Vec::new(),
        };
        assert!(kept(&own).owns(std::process::id()));
        assert!(!kept("/somewhere/else").owns(std::process::id()));
    }
}
