//! SEND: into the receive that the first unit took.

use crate::buffers::{MoveError, total};
use crate::memory::Memory;
use crate::responder::refuse::Refusal;
use crate::responder::{Delivery, Message};
use crate::unit::RequestTail;
use crate::work::WcOp;

impl<R: Clone, M: Memory<Region = R>> Delivery<'_, R, M> {
    pub(super) fn send(&mut self) -> Result<(), Refusal> {
        if self.request.first {
            let receive = self.take_receive().ok_or(Refusal::NotReady)?;
            self.qp.responder.message = Message::Send { receive, stored: 0 };
        }
        self.store()?;
        if self.request.last {
            self.end_send()?;
        }
        Ok(())
    }

    fn store(&mut self) -> Result<(), Refusal> {
        let Message::Send { receive, stored } = &mut self.qp.responder.message else {
            return Err(Refusal::Invalid);
        };
        let sges = receive
            .sges
            .as_ref()
            .map_err(|status| Refusal::Receive(*status))?;
        let end = u64::from(*stored) + self.bytes;
        if end > total(sges) || end > u64::from(self.shared.limits.message_bytes) {
            return Err(Refusal::TooLong);
        }
        let to = (&sges[..], *stored);
        self.shared
            .scatter(self.qp.spec.pd, to, self.payload, self.memory)
            .map_err(|fault| match fault {
                MoveError::Local => Refusal::Receive(crate::work::Status::LocProt),
                MoveError::Source => Refusal::SourceFault,
            })?;
        self.shared.counters.received.bytes += end - u64::from(*stored);
        debug_assert!(end <= u64::from(u32::MAX), "no message is longer");
        *stored = end as u32;
        Ok(())
    }

    /// A key that cannot be invalidated is an access error (IBTA 9.9.3).
    fn end_send(&mut self) -> Result<(), Refusal> {
        if let Some(RequestTail::Invalidate(key)) = self.request.tail {
            let done = self.shared.invalidate(self.qp, key);
            done.map_err(|_| Refusal::Access)?;
        }
        if let Message::Send { receive, stored } = core::mem::take(&mut self.qp.responder.message) {
            let completion = self.received(receive.id, WcOp::Recv, stored);
            self.complete(completion);
        }
        Ok(())
    }
}
