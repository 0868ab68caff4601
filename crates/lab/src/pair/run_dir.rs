//! The folder of a pair's sockets and logs.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::process::Lifetime;

/// A folder that goes with the pair, or stays with a kept one.
#[derive(Debug)]
pub(super) enum RunDir {
    Owned(TempDir),
    Kept(PathBuf),
}

impl RunDir {
    pub(super) fn create(lifetime: Lifetime) -> Result<Self> {
        let parent = parent();
        let folder = tempfile::Builder::new()
            .prefix("vrdma-lab-")
            .tempdir_in(&parent);
        let folder = folder.with_context(|| format!("cannot use {}", parent.display()))?;
        Ok(match lifetime {
            Lifetime::Owned => Self::Owned(folder),
            Lifetime::Kept => Self::Kept(folder.keep()),
        })
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Owned(folder) => folder.path(),
            Self::Kept(path) => path,
        }
    }
}

/// Short, since sockets lie in it.
fn parent() -> PathBuf {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime
        .filter(|path| path.is_dir())
        .unwrap_or_else(env::temp_dir)
}
