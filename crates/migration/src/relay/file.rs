//! The relay's file, handed to the source's QEMU: it writes its stream there with less work than into a socket.
//!
//! ```text
//!   add-fd ──► mapped-ram, multifd, pages of zeros like others ──► migrate file:/dev/fdset/N ──► ... ──► remove-fd
//! ```
//! Pages of zeros must come as others do: QEMU would leave them out, and the destination keep what was there before. The relay sees
//! the end of the stream when nobody has the file any more, hence `remove-fd` when QEMU has opened it as often as it does.

use std::fs::File;
use std::os::fd::AsFd;

use serde_json::{Value, json};

use super::Relay;
use crate::copying::{MAPPED, MULTIFD};
use crate::qmp::{Monitor, QmpError};

/// The parameter that says who looks for pages of zeros.
const ZEROS: &str = "zero-page-detection";

/// The one for threads that write pages, and how many: while a piece of one is taken, the other prepares its own.
const CHANNELS: &str = "multifd-channels";
const WRITERS: u8 = 2;

/// A file that QEMU has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offered {
    /// The migration URI.
    pub uri: String,
    /// What QEMU calls it.
    set: Value,
    /// Of the parameters that were set, what they were.
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
    /// QEMU gives the file up but for where it writes it. For a QEMU whose pages have begun to come, since it opens the
    /// file more than once.
    ///
    /// # Errors
    /// When QEMU has ended.
    pub fn withdraw(&self, monitor: &mut Monitor) -> Result<(), QmpError> {
        let removed = monitor.execute("remove-fd", json!({ "fdset-id": self.set }));
        removed.map(drop)
    }
}
