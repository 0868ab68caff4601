//! The folder of a pair's sockets and logs, or of processes' adapters.
//!
//! The folder goes with the pair. A pair whose process was killed leaves it behind, with tens of megabytes in what may
//! be memory. So the folder's name tells the process, and the next pair removes it.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::process::Lifetime;

/// Prefix of a folder's name, followed by the owner's process number and random letters.
const OWNED_PREFIX: &str = "vrdma-lab-";
const KEPT_PREFIX: &str = "vrdma-kept-";

/// A folder that goes with the pair, or stays with a kept one.
#[derive(Debug)]
pub enum RunDir {
    /// Removed when dropped.
    Owned(TempDir),
    /// Kept.
    Kept(PathBuf),
}

impl RunDir {
    /// Makes a folder, and removes those that killed processes left.
    ///
    /// # Errors
    /// When the folder for temporary files cannot be used.
    pub fn create(lifetime: Lifetime) -> Result<Self> {
        let parent = parent();
        sweep(&parent);
        let prefix = match lifetime {
            Lifetime::Owned => format!("{OWNED_PREFIX}{}-", process::id()),
            Lifetime::Kept => KEPT_PREFIX.to_owned(),
        };
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(&parent);
        let folder = folder.with_context(|| format!("cannot use {}", parent.display()))?;
        Ok(match lifetime {
            Lifetime::Owned => Self::Owned(folder),
            Lifetime::Kept => Self::Kept(folder.keep()),
        })
    }

    /// The folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Owned(folder) => folder.path(),
            Self::Kept(path) => path,
        }
    }
}

/// The parent folder; its path is short, since sockets are in it.
fn parent() -> PathBuf {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime
        .filter(|path| path.is_dir())
        .unwrap_or_else(env::temp_dir)
}

/// Removes the folders of dead processes. Another user's folder cannot be removed, which is right.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if owner(&entry.file_name().to_string_lossy()).is_some_and(|process| !is_alive(process)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(OWNED_PREFIX)?
        .split('-')
        .next()?
        .parse()
        .ok()
}

fn is_alive(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_the_dead_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let alive = format!("{OWNED_PREFIX}{}-x", process::id());
        // Above the largest process number that Linux uses.
        let names = [
            "vrdma-lab-4194305-x",
            "vrdma-kept-x",
            "vrdma-lab-x",
            "other",
            &alive,
        ];
        for name in names {
            fs::create_dir_all(parent.path().join(name).join("inside")).unwrap();
        }
        sweep(parent.path());
        let left: Vec<bool> = names
            .iter()
            .map(|name| parent.path().join(name).exists())
            .collect();
        assert_eq!(left, [false, true, true, true, true]);
    }
}
