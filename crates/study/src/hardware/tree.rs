//! The kernel's files about PCI, below a root that tests can replace.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

/// A function's address, such as `0000:01:00.0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress(String);

impl PciAddress {
    /// An address as the kernel writes it.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        Self(address.into())
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Performs writes to the kernel's files.
pub trait Kernel: Send + Sync {
    /// Writes to an existing file.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn write(&self, file: &Path, text: &str) -> std::io::Result<()>;
}

/// The running kernel.
pub struct Running;

impl Kernel for Running {
    fn write(&self, file: &Path, text: &str) -> std::io::Result<()> {
        use std::io::Write;
        // Without creating: a file that does not exist is a feature that does not exist.
        let mut file = fs::File::options().write(true).open(file)?;
        file.write_all(text.as_bytes())
    }
}

/// `sys` and `proc` below a root.
#[derive(Clone)]
pub struct Tree {
    root: PathBuf,
    kernel: Arc<dyn Kernel>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tree({})", self.root.display())
    }
}

impl Tree {
    /// The files below a root, where `kernel` performs writes.
    pub fn new(root: impl Into<PathBuf>, kernel: impl Kernel + 'static) -> Self {
        Self {
            root: root.into(),
            kernel: Arc::new(kernel),
        }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(super) fn function(&self, address: &PciAddress, file: &str) -> PathBuf {
        self.path(&format!("sys/bus/pci/devices/{address}/{file}"))
    }

    /// A file's text, trimmed; empty if there is no file.
    pub(super) fn read(&self, path: &Path) -> String {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.trim().to_owned()
    }

    /// Names in a folder, sorted; none if there is no folder.
    pub(super) fn names(&self, folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The last part of a link's target.
    pub(super) fn link(&self, path: &Path) -> Option<String> {
        let target = fs::read_link(path).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    pub(super) fn driver(&self, address: &PciAddress) -> Option<String> {
        self.link(&self.function(address, "driver"))
    }

    pub(super) fn write(&self, path: &Path, text: &str) -> Result<()> {
        let written = self.kernel.write(path, text);
        written.with_context(|| format!("cannot write {:?} to {}", text.trim(), path.display()))
    }
}
