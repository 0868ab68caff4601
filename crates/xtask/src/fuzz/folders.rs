//! Where targets, inputs and results are.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(super) struct Folders {
    /// `crates/fuzz`
    source: PathBuf,
    /// Of what is built and found, below cargo's.
    pub(super) results: PathBuf,
}

impl Folders {
    pub(super) fn of_this_program() -> Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        Ok(Self {
            source: source.canonicalize().context("crates/fuzz is not there")?,
            results: crate::library::target_folder()?.join("fuzz"),
        })
    }

    /// Names of all targets, in order.
    pub(super) fn targets(&self) -> Result<Vec<String>> {
        let name = |path: &PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
        let files = files(&self.source.join("targets"))?;
        Ok(files.iter().filter_map(name).collect())
    }

    /// The inputs that the repository keeps of a target.
    pub(super) fn corpus(&self, target: &str) -> PathBuf {
        self.source.join("corpus").join(target)
    }

    /// Where a run of a target starts, the folder that it writes to first. All of them are there afterwards.
    pub(super) fn inputs(&self, target: &str) -> Result<Vec<PathBuf>> {
        let kept = [self.corpus(target), self.source.join("found").join(target)];
        let mut inputs = vec![made(self.results.join("corpus").join(target))?];
        inputs.extend(kept.into_iter().filter(|folder| folder.is_dir()));
        Ok(inputs)
    }

    /// Where inputs go that a target fails.
    pub(super) fn found(&self, target: &str) -> Result<PathBuf> {
        made(self.results.join("found").join(target))
    }

    /// An empty folder for the smallest corpus.
    pub(super) fn minimal(&self, target: &str) -> Result<PathBuf> {
        let folder = self.results.join("minimal").join(target);
        if folder.is_dir() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("removing {}", folder.display()))?;
        }
        made(folder)
    }
}

/// The files of a folder, in order.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir();
    let entries = entries.with_context(|| format!("reading {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn made(folder: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}
