//! Which QEMU the sockets of a VM's adapter let in: one of the daemon's user, or of a user that the
//! adapter names.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use vrdma_api::Name;
use vrdma_process::{Admission, Caller, Lines};
use vrdma_switch::PortId;

/// Of one adapter's socket.
#[derive(Debug)]
pub struct QemuGuard {
    admission: Arc<Admission>,
    port: PortId,
    adapter: Name,
    lines: Lines,
}

impl QemuGuard {
    /// For the adapter of that name at `port`.
    pub fn new(admission: Arc<Admission>, port: PortId, adapter: Name) -> Self {
        Self {
            admission,
            port,
            adapter,
            lines: Lines::default(),
        }
    }

    /// Whether the one who connected may be this adapter's VM; a line of the log tells of a refusal.
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

    /// Lines that the log was not told.
    pub fn log_lines_left_out(&self) -> u64 {
        self.lines.left_out()
    }

    /// Tells the log, unless it was told too much of this socket lately: whoever may come by it can do so
    /// as often as it likes.
    pub fn tell(&self, tell: impl FnOnce()) {
        if self.lines.allow(Instant::now()) {
            tell();
        }
    }
}
