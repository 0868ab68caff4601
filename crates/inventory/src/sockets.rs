//! Where the sockets of an adapter are.
//!
//! Paths are made when somebody asks: a host has thousands of adapters, few of which are connected to at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vrdma_api::Name;

/// The sockets of an adapter; which of them there are follows from its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sockets {
    run_dir: Arc<Path>,
    adapter: Name,
}

impl Sockets {
    pub(crate) fn new(run_dir: Arc<Path>, adapter: Name) -> Self {
        Self { run_dir, adapter }
    }

    /// Where QEMU's vfio-user client connects; the shard that serves the VM binds it.
    pub fn vfio_user(&self) -> PathBuf {
        self.path("vfio-user")
    }

    /// Where QEMU's stream netdev connects.
    pub fn ethernet(&self) -> PathBuf {
        self.path("ethernet")
    }

    /// Where processes connect that shall reach this adapter only; the first shard binds it.
    pub fn process(&self) -> PathBuf {
        self.path("process.sock")
    }

    /// The longest of these paths.
    pub(crate) fn longest(&self) -> PathBuf {
        self.process()
    }

    fn path(&self, kind: &str) -> PathBuf {
        let adapter = &self.adapter;
        self.run_dir.join(format!("{adapter}.{kind}"))
    }
}
