//! The outputs of a node in forms that tests compare.

use vrdma_verbs::work::{Status, WcOp};

use super::Node;

impl Node {
    /// Returns the send completions so far: cookie and status.
    pub(crate) fn sends(&self) -> Vec<(u64, Status)> {
        let signalled = self.sent.iter().flatten();
        signalled.map(|done| (done.wr_id, done.status)).collect()
    }

    /// Returns the receive completions so far: cookie and status.
    pub(crate) fn receives(&self) -> Vec<(u64, Status)> {
        self.received
            .iter()
            .map(|done| (done.wr_id, done.status))
            .collect()
    }

    /// Returns the receive completions so far: cookie, kind and length.
    pub(crate) fn messages(&self) -> Vec<(u64, WcOp, u32)> {
        let messages = self.received.iter();
        messages
            .map(|done| (done.wr_id, done.op, done.byte_len))
            .collect()
    }
}
