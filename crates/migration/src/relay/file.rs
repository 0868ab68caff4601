//! The relay's file, handed to the source's QEMU, which writes its stream into a file with less work than into a
//! socket.
//!
//! ```text
//!   add-fd ──► mapped-ram, multifd, pages of zeros like others ──► migrate file:/dev/fdset/N ──► ... ──► remove-fd
//! ```
//! Pages of zeros must be sent like others: QEMU would leave them out, and the destination would keep the old contents.
//! The relay sees the end of the stream once nobody has the file open, hence `remove-fd` after QEMU has opened it for
//! the last time.

use std::fs::File;
use std::os::fd::AsFd;

use serde_json::{Value, json};

use super::Relay;
use crate::copying::{MAPPED, MULTIFD};
use crate::qmp::{Monitor, QmpError};

/// The parameter that selects how pages of zeros are detected.
const ZEROS: &str = "zero-page-detection";

/// The parameter for the number of threads that write pages, and its value: while one thread's piece is taken, the
/// other prepares its own.
const CHANNELS: &str = "multifd-channels";
const WRITERS: u8 = 2;

/// A file that was handed to QEMU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offered {
    /// The migration URI.
    pub uri: String,
    /// QEMU's number of the set of descriptors.
    set: Value,
    /// Earlier values of the parameters that were changed.
    pub(crate) parameters: Value,
}

impl Relay {
    /// Hands the file to QEMU, if there is one.
    ///
    /// # Errors
    /// When QEMU refuses something.
    pub fn offer(&self, monitor: &mut Monitor) -> Result<Option<Offered>, QmpError> {
        let Some(path) = &self.file else {
            return Ok(None);
        };
        let file = File::options().write(true).open(path);
        let file = file.map_err(|error| QmpError::File {
            path: path.clone(),
            error,
        })?;
        let added = monitor.execute_with("add-fd", json!({}), file.as_fd())?;
        let set = added["fdset-id"].clone();
        let before = monitor.execute("query-migrate-parameters", json!({}))?;
        let on = [MULTIFD, MAPPED].map(|name| json!({ "capability": name, "state": true }));
        monitor.execute("migrate-set-capabilities", json!({ "capabilities": on }))?;
        monitor.execute(
            "migrate-set-parameters",
            json!({ ZEROS: "none", CHANNELS: WRITERS }),
        )?;
        Ok(Some(Offered {
            uri: format!("file:/dev/fdset/{set}"),
            set,
            parameters: json!({ ZEROS: before[ZEROS], CHANNELS: before[CHANNELS] }),
        }))
    }
}

impl Offered {
    /// Has QEMU give the file up, except where it is writing to it. Call this once pages arrive, since QEMU opens the
    /// file more than once.
    ///
    /// # Errors
    /// When QEMU has ended.
    pub fn withdraw(&self, monitor: &mut Monitor) -> Result<(), QmpError> {
        let removed = monitor.execute("remove-fd", json!({ "fdset-id": self.set }));
        removed.map(drop)
    }
}
