//! Datagrams, which are taken whole or not at all, and never answered.

use crate::buffers::{MoveError, total};
use crate::enclosed::Incoming;
use crate::grh::{GRH_BYTES, header_area};
use crate::memory::Memory;
use crate::responder::Delivery;
use crate::responder::admit::Drop;
use crate::work::{RecvWr, Sge, Status, WcOp};

/// Outcome of a receive that a datagram took.
enum Outcome {
    /// The number of bytes that fill it, and the enclosed message if they go with the completion.
    Filled(u32, Option<u32>),
    /// Too short. The QP goes on: otherwise any sender that knows the Q_Key could end it.
    Short,
    /// Bad in itself, by its owner's fault: the QP goes to ERR.
    Bad(Status),
    /// The sender's memory is gone, or memory is late: treated as if nothing had come.
    NotMoved,
}

impl<R: Clone, M: Memory<Region = R>> Delivery<'_, R, M> {
    pub(super) fn take_datagram(&mut self) {
        if self.bytes > u64::from(self.shared.limits.port_mtu.bytes()) {
            return self.drop_unit(Drop::Malformed);
        }
        let Some(receive) = self.take_receive() else {
            return self.drop_unit(Drop::NoReceive);
        };
        match self.fill(&receive) {
            Outcome::Filled(bytes, enclosed) => self.datagram_received(&receive, bytes, enclosed),
            Outcome::Short => self
                .qp
                .receive_failed(self.shared, &receive, Status::LocLen),
            Outcome::Bad(status) => {
                self.qp.receive_failed(self.shared, &receive, status);
                self.qp.enter_error(self.shared);
            }
            Outcome::NotMoved => {
                self.return_receive(receive);
                self.drop_unit(Drop::SourceFault);
            }
        }
    }

    fn fill(&mut self, receive: &RecvWr) -> Outcome {
        let sges = match &receive.sges {
            Ok(sges) => sges,
            Err(status) => return Outcome::Bad(*status),
        };
        let bytes = self.bytes as u32;
        let needed = GRH_BYTES + bytes;
        if u64::from(needed) > total(sges) {
            return Outcome::Short;
        }
        match self.store_datagram(sges, bytes) {
            Ok(enclosed) => Outcome::Filled(needed, enclosed),
            Err(MoveError::Local) => Outcome::Bad(Status::LocProt),
            Err(MoveError::Source | MoveError::Late) => Outcome::NotMoved,
        }
    }

    fn store_datagram(&mut self, sges: &[Sge], bytes: u32) -> Result<Option<u32>, MoveError> {
        let area = header_area(&self.request.route, bytes, self.request.tail.is_some());
        let (cq, pd) = (self.qp.spec.recv_cq, self.qp.spec.pd);
        let message = Incoming {
            cq,
            pd,
            sges,
            head: &area,
            payload: self.payload,
        };
        let enclosed = self.shared.enclose(&message, self.memory)?;
        if enclosed.is_some() {
            return Ok(enclosed);
        }
        self.shared.scatter_bytes(pd, sges, 0, &area, self.memory)?;
        self.shared
            .scatter(pd, sges, GRH_BYTES, self.payload, self.memory)?;
        Ok(None)
    }

    fn datagram_received(&mut self, receive: &RecvWr, bytes: u32, enclosed: Option<u32>) {
        let mut completion = self.received(receive.id, WcOp::Recv, bytes);
        completion.grh = Some((self.request.route.sgid, self.request.route.dgid));
        completion.enclosed = enclosed;
        self.complete(completion);
        let received = &mut self.shared.counters.received;
        received.datagrams += 1;
        received.bytes += u64::from(bytes - GRH_BYTES);
    }

    pub(super) fn drop_unit(&mut self, reason: Drop) {
        *reason.counter(&mut self.shared.counters.drops) += 1;
    }
}
