//! RDMA WRITE, which goes into the memory that its first unit named. The key is looked up for every unit, since the
//! region may go in between.

use crate::attr::Access;
use crate::memory::{CopyFault, Memory};
use crate::responder::refuse::Refusal;
use crate::responder::{Delivery, Message};
use crate::work::{Remote, WcOp};

impl<R: Clone, M: Memory<Region = R>> Delivery<'_, R, M> {
    #[inline]
    pub(super) fn write(&mut self, target: Option<(Remote, u32)>) -> Result<(), Refusal> {
        if self.request.takes_receive() && !self.qp.has_receive(self.shared) {
            return Err(Refusal::NotReady);
        }
        let (remote, left, length) = self.window(target)?;
        let bytes = self.bytes as u32;
        let fits = if self.request.last {
            bytes == left
        } else {
            bytes < left
        };
        fits.then_some(()).ok_or(Refusal::Invalid)?;
        self.store_at(remote, bytes, length)?;
        if self.request.last {
            self.end_write(length);
            return Ok(());
        }
        debug_assert!(bytes < left && left <= length, "more is to come");
        self.qp.responder.message = Message::Write {
            remote: Remote {
                addr: remote.addr.wrapping_add(u64::from(bytes)),
                ..remote
            },
            left: left - bytes,
            length,
        };
        Ok(())
    }

    /// Returns where this unit goes, how much is still to come, and how long the message is.
    fn window(&self, target: Option<(Remote, u32)>) -> Result<(Remote, u32, u32), Refusal> {
        match (&self.qp.responder.message, target) {
            (Message::None, Some((remote, length))) => {
                self.open_window(remote, length)?;
                Ok((remote, length, length))
            }
            (
                Message::Write {
                    remote,
                    left,
                    length,
                },
                None,
            ) => Ok((*remote, *left, *length)),
            _ => Err(Refusal::Invalid),
        }
    }

    /// Checks the whole range before its first byte is written; an empty range names no memory (IBTA 9.7.4).
    fn open_window(&self, remote: Remote, length: u32) -> Result<(), Refusal> {
        let allowed = self.qp.attr.access.contains(Access::REMOTE_WRITE);
        if !allowed || length > self.shared.limits.message_bytes {
            return Err(Refusal::Invalid);
        }
        // A message of one unit is checked where it is stored.
        let is_whole = self.request.last && self.bytes == u64::from(length);
        let right = Access::REMOTE_WRITE;
        let is_open = || self.shared.remote(self.qp, remote, length, right).is_some();
        (is_whole || length == 0 || is_open())
            .then_some(())
            .ok_or(Refusal::Access)
    }

    #[inline]
    fn store_at(&mut self, remote: Remote, bytes: u32, message: u32) -> Result<(), Refusal> {
        if bytes == 0 {
            return Ok(());
        }
        let right = Access::REMOTE_WRITE;
        let spot = self.shared.remote(self.qp, remote, bytes, right);
        let spot = spot.ok_or(Refusal::Access)?;
        debug_assert_eq!(
            self.payload.length(),
            u64::from(bytes),
            "what was checked is stored"
        );
        self.payload
            .store(spot.region, spot.offset, message, self.memory)
            .map_err(|fault| match fault {
                CopyFault::Source => Refusal::SourceFault,
                CopyFault::Destination => Refusal::OwnMemory,
                CopyFault::Late => Refusal::Late,
            })?;
        self.shared.counters.received.bytes += u64::from(bytes);
        Ok(())
    }

    /// Ends a WRITE. Immediate data takes a receive, whose buffers stay untouched.
    fn end_write(&mut self, length: u32) {
        self.qp.responder.message = Message::None;
        if !self.request.takes_receive() {
            return;
        }
        if let Some(receive) = self.take_receive() {
            let completion = self.received(receive.id, WcOp::RecvWriteImm, length);
            self.complete(completion);
        }
    }
}
