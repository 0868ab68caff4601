//! What a node has handed out, as tests compare it.

use vrdma_verbs::work::{Status, WcOp};

use super::Node;

impl Node {
    /// Send completions so far: cookie and status.
    pub(crate) fn sends(&self) -> Vec<(u64, Status)> {
        let signalled = self.sent.iter().flatten();
        signalled.map(|done| (done.wr_id, done.status)).collect()
    }

    /// Receive completions so far: cookie and status.
    pub(crate) fn receives(&self) -> Vec<(u64, Status)> {
        self.received
            .iter()
            .map(|done| (done.wr_id, done.status))
            .collect()
    }

    /// Receive completions so far: cookie, kind and length.
    pub(crate) fn messages(&self) -> Vec<(u64, WcOp, u32)> {
        let messages = self.received.iter();
        messages
            .map(|done| (done.wr_id, done.op, done.byte_len))
            .collect()
    }
}
