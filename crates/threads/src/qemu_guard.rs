//! The guard of the sockets of a VM's adapter: it lets in a QEMU of the daemon's user, or of a user that the adapter
//! names.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use vrdma_api::Name;
use vrdma_process::{Admission, Caller, Lines};
use vrdma_switch::PortId;

/// Guard of one adapter's socket.
#[derive(Debug)]
pub struct QemuGuard {
    admission: Arc<Admission>,
    port: PortId,
    adapter: Name,
    lines: Lines,
}

impl QemuGuard {
    /// Makes a guard for the adapter of that name at `port`.
    pub fn new(admission: Arc<Admission>, port: PortId, adapter: Name) -> Self {
        Self {
            admission,
            port,
            adapter,
            lines: Lines::default(),
        }
    }

    /// Whether the connected process may be this adapter's VM; a refusal is logged.
    pub fn lets_in(&self, socket: BorrowedFd<'_>, has_client: bool) -> bool {
        let adapter = &self.adapter;
        match Caller::at(socket) {
            Ok(caller) if !self.admission.admits(self.port, &caller) => self.tell(|| {
                let uid = caller.uid;
                tracing::warn!(
                    "{adapter}: refused a VM of user {uid}: name the user that QEMU runs as with \
                     `vrdma adapter set {adapter} --user {uid}` or in the configuration"
                );
            }),
            Ok(_) if has_client => self.tell(|| {
                tracing::warn!("{adapter}: refused a second client: the adapter has one already");
            }),
            Ok(_) => return true,
            Err(error) => self.tell(|| tracing::warn!("{adapter}: refused a client: {error}")),
        }
        false
    }

    /// Returns the number of lines that were left out of the log.
    pub fn log_lines_left_out(&self) -> u64 {
        self.lines.left_out()
    }

    /// Writes to the log, unless there was too much about this socket lately: anybody who may connect can cause lines
    /// as often as they like.
    pub fn tell(&self, tell: impl FnOnce()) {
        if self.lines.allow(Instant::now()) {
            tell();
        }
    }
}
