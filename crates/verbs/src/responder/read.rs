//! RDMA READ, which is answered with references; the requester's side copies.

use crate::attr::Access;
use crate::memory::{Gather, Memory};
use crate::responder::Delivery;
use crate::responder::refuse::Refusal;
use crate::unit::ResponseBody;
use crate::work::Remote;

impl<R: Clone, M: Memory<Region = R>> Delivery<'_, R, M> {
    /// Answers a READ. An empty one names no memory (IBTA 9.7.4).
    pub(super) fn read(&self, remote: Remote, length: u32) -> Result<ResponseBody<R>, Refusal> {
        self.check_right(Access::REMOTE_READ)?;
        if length > self.shared.limits.message_bytes {
            return Err(Refusal::Invalid);
        }
        let mut data = Gather::new();
        if length > 0 {
            let right = Access::REMOTE_READ;
            let spot = self.shared.remote(self.qp, remote, length, right);
            data.push(spot.ok_or(Refusal::Access)?.stretch(length));
        }
        Ok(ResponseBody::Read(data))
    }

    /// Checks that the QP itself offers READs or atomics, and has room for one (IBTA 9.7.4).
    pub(super) fn check_right(&self, right: Access) -> Result<(), Refusal> {
        let attr = &self.qp.attr;
        (attr.access.contains(right) && attr.max_dest_rd_atomic > 0)
            .then_some(())
            .ok_or(Refusal::Invalid)
    }
}
