//! Paths of an adapter's sockets.
//!
//! Paths are made when they are asked for: a host has thousands of adapters, few of which are connected to at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vrdma_api::Name;

/// The sockets of an adapter; its kind determines which of them exist.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sockets {
    run_dir: Arc<Path>,
    adapter: Name,
}

impl Sockets {
    pub(crate) fn new(run_dir: Arc<Path>, adapter: Name) -> Self {
        Self { run_dir, adapter }
    }

    /// Path that QEMU's vfio-user client connects to; the shard that serves the VM binds it.
    pub fn vfio_user(&self) -> PathBuf {
        self.path("vfio-user")
    }

    /// Path that QEMU's stream netdev connects to.
    pub fn ethernet(&self) -> PathBuf {
        self.path("ethernet")
    }

    /// Path that processes connect to which may reach only this adapter; the first shard binds it.
    pub fn process(&self) -> PathBuf {
        self.path("process.sock")
    }

    /// Returns the longest of these paths.
    pub(crate) fn longest(&self) -> PathBuf {
        self.process()
    }

    fn path(&self, kind: &str) -> PathBuf {
        let adapter = &self.adapter;
        self.run_dir.join(format!("{adapter}.{kind}"))
    }
}
