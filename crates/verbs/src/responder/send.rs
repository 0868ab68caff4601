//! SEND, which goes into the receive that its first unit took.

use crate::buffers::{MoveError, total};
use crate::enclosed::Incoming;
use crate::memory::Memory;
use crate::responder::refuse::Refusal;
use crate::responder::{Delivery, Message};
use crate::unit::RequestTail;
use crate::work::{Status, WcOp};

impl<R: Clone, M: Memory<Region = R>> Delivery<'_, R, M> {
    pub(super) fn send(&mut self) -> Result<(), Refusal> {
        if self.request.first {
            let receive = self.take_receive().ok_or(Refusal::NotReady)?;
            self.qp.responder.message = Message::Send { receive, stored: 0 };
        }
        let enclosed = self.store()?;
        if self.request.last {
            self.end_send(enclosed)?;
        }
        Ok(())
    }

    /// Stores the payload of the unit, or lets a whole message go with its completion.
    fn store(&mut self) -> Result<Option<u32>, Refusal> {
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
        let (cq, pd) = (self.qp.spec.recv_cq, self.qp.spec.pd);
        let enclosed = match self.request.first && self.request.last {
            true => {
                let message = Incoming {
                    cq,
                    pd,
                    sges,
                    head: &[],
                    payload: self.payload,
                };
                self.shared
                    .enclose(&message, self.memory)
                    .map_err(refusal)?
            }
            false => None,
        };
        if enclosed.is_none() {
            self.shared
                .scatter(pd, sges, *stored, self.payload, self.memory)
                .map_err(refusal)?;
        }
        self.shared.counters.received.bytes += end - u64::from(*stored);
        debug_assert!(end <= u64::from(u32::MAX), "no message is longer");
        *stored = end as u32;
        Ok(enclosed)
    }

    /// Ends a SEND. A key that cannot be invalidated is an access error (IBTA 9.9.3).
    fn end_send(&mut self, enclosed: Option<u32>) -> Result<(), Refusal> {
        if let Some(RequestTail::Invalidate(key)) = self.request.tail {
            let done = self.shared.invalidate(self.qp, key);
            done.map_err(|_| Refusal::Access)?;
        }
        if let Message::Send { receive, stored } = core::mem::take(&mut self.qp.responder.message) {
            let mut completion = self.received(receive.id, WcOp::Recv, stored);
            completion.enclosed = enclosed;
            self.complete(completion);
        }
        Ok(())
    }
}

fn refusal(fault: MoveError) -> Refusal {
    match fault {
        MoveError::Local => Refusal::Receive(Status::LocProt),
        MoveError::Source => Refusal::SourceFault,
        MoveError::Late => Refusal::Late,
    }
}
