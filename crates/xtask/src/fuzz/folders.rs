//! The folders of targets, inputs and results.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(super) struct Folders {
    /// `crates/fuzz`
    source: PathBuf,
    /// The folder of what is built and found, below cargo's target folder.
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

    /// The inputs of a target that the repository keeps.
    pub(super) fn corpus(&self, target: &str) -> PathBuf {
        self.source.join("corpus").join(target)
    }

    /// The folders with the inputs that a run of a target starts from, first the one that it writes to. All of them
    /// exist afterwards.
    pub(super) fn inputs(&self, target: &str) -> Result<Vec<PathBuf>> {
        let kept = [self.corpus(target), self.source.join("found").join(target)];
        let mut inputs = vec![made(self.results.join("corpus").join(target))?];
        inputs.extend(kept.into_iter().filter(|folder| folder.is_dir()));
        Ok(inputs)
    }

    /// The folder for inputs that make a target fail.
    pub(super) fn found(&self, target: &str) -> Result<PathBuf> {
        made(self.results.join("found").join(target))
    }

    /// Makes an empty folder for the smallest corpus.
    pub(super) fn minimal(&self, target: &str) -> Result<PathBuf> {
        let folder = self.results.join("minimal").join(target);
        if folder.is_dir() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("removing {}", folder.display()))?;
        }
        made(folder)
    }
}

/// The files of a folder, sorted.
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
