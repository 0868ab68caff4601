//! Doorbell words (`PVRDMA_UAR_*`).

use vrdma_pvrdma::abi::doorbell::{CqFlags, Doorbell, QpFlags, SrqFlags};

use crate::guest::Guest;
use crate::object::{Cq, Qp, Srq};

impl Guest {
    /// Rings after adding to a queue pair's send ring.
    pub fn ring_send(&mut self, qp: &Qp) {
        let value = qp.handle | QpFlags::SEND.bits();
        self.ring(qp.page, Doorbell::Qp, value);
    }

    /// Rings after adding to a queue pair's receive ring.
    pub fn ring_recv(&mut self, qp: &Qp) {
        let value = qp.handle | QpFlags::RECV.bits();
        self.ring(qp.page, Doorbell::Qp, value);
    }

    /// Rings after adding to a shared receive ring.
    pub fn ring_srq(&mut self, srq: &Srq) {
        let value = srq.handle | SrqFlags::RECV.bits();
        self.ring(srq.page, Doorbell::Srq, value);
    }

    /// Requests a notification at the next completion.
    pub fn arm(&mut self, cq: &Cq) {
        self.ring_cq(cq, CqFlags::ARM);
    }

    /// Requests a notification at the next solicited completion or error.
    pub fn arm_solicited(&mut self, cq: &Cq) {
        self.ring_cq(cq, CqFlags::ARM_SOLICITED);
    }

    /// Tells the device that the CQ was found empty.
    pub fn ring_poll(&mut self, cq: &Cq) {
        self.ring_cq(cq, CqFlags::POLL);
    }

    fn ring_cq(&mut self, cq: &Cq, flag: CqFlags) {
        self.ring(cq.page, Doorbell::Cq, cq.handle | flag.bits());
    }
}
