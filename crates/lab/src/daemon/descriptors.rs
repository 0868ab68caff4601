//! Open descriptors of a daemon.

use std::fs;

use super::Daemon;

impl Daemon {
    /// Number of its open descriptors, including its worker's if it has a keeper.
    #[must_use]
    pub fn open_descriptors(&self) -> Option<usize> {
        let open = fs::read_dir(format!("/proc/{}/fd", self.process_id())).ok()?;
        Some(open.count())
    }
}
