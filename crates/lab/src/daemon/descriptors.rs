//! What a daemon has open.

use std::fs;

use super::Daemon;

impl Daemon {
    /// How many descriptors it has open, its worker's included if it has a keeper.
    #[must_use]
    pub fn open_descriptors(&self) -> Option<usize> {
        let open = fs::read_dir(format!("/proc/{}/fd", self.process_id())).ok()?;
        Some(open.count())
    }
}
