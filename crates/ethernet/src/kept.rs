//! A connection with which another worker can go on.
//!
//! The next worker finds the bytes in the socket, and nothing of this one's memory. Therefore reads from the socket end
//! where a frame ends ([`Client`](super::client::Client)), and so do writes:
//!
//! ```text
//!   frames ──► parts of at most WHOLE_BYTES ── sendmsg: all of it or nothing ──► socket
//! ```
//! If a kernel still takes only a part, that is recorded until the rest is written, and no worker goes on amid the
//! frame. A frame that was handled and not yet taken from the socket is handled twice: a switch may duplicate frames.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;

use vrdma_api::Name;
use vrdma_switch::MAX_FRAME;
use vrdma_threads::StreamRecords;
use vrdma_wire::qemu_stream::HEADER_BYTES;

/// Bytes that a Unix socket of Linux takes at once or not at all (`unix_stream_sendmsg`: one buffer, with 32 KiB in
/// pages).
pub(super) const WHOLE_BYTES: usize = 32 << 10;

/// The switch does not forward longer frames.
const _: () = assert!(HEADER_BYTES + MAX_FRAME <= WHOLE_BYTES);

/// The record of a port's connection.
pub(super) struct Kept {
    records: Arc<dyn StreamRecords>,
    port: Name,
    is_cut: bool,
}

impl Kept {
    /// Records the connection.
    pub(super) fn connected(
        records: Arc<dyn StreamRecords>,
        port: Name,
        stream: impl AsFd,
    ) -> Self {
        records.connected(&port, stream.as_fd());
        Self {
            records,
            port,
            is_cut: false,
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Records whether the connection may be amid a frame.
    pub(super) fn cut(&mut self, is_cut: bool) {
        if std::mem::replace(&mut self.is_cut, is_cut) != is_cut {
            self.records.cut(&self.port, is_cut);
        }
    }
}

impl Drop for Kept {
    /// Removes the record; the connection is closed next.
    fn drop(&mut self) {
        self.records.disconnected(&self.port);
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("port", &self.port).finish()
    }
}
