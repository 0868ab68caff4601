//! Objects of a test's device, made by the functions that programs call. They end with the process.

use core::ffi::{c_int, c_uint};
use core::ptr::null_mut;
use std::sync::Arc;

use vrdma_provider::area::Area;
use vrdma_provider::daemon::{CompletionRing, WorkRing};
use vrdma_provider::layout::{Buffer, SendHeader, send_flag};

use super::TestDevice;
use crate::abi;
use crate::cq::ibv_create_cq;
use crate::domain::ibv_alloc_pd;
use crate::memory::ibv_reg_mr;
use crate::qp_ex::create_qp_ex;
use crate::qp_state::ibv_modify_qp;

/// `IBV_QP_INIT_ATTR_PD` and `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
const PD_AND_OPERATIONS: u32 = 1 | 1 << 6;
/// `IBV_QP_STATE`.
const STATE: c_int = 1;

/// Capacities of a test's queue pairs.
pub(crate) const CAPACITY: abi::QpCap = abi::QpCap {
    max_send_wr: 16,
    max_recv_wr: 4,
    max_send_sge: 3,
    max_recv_sge: 2,
    max_inline_data: 100,
};

/// A queue pair of a test, and the daemon's end of its rings.
pub(crate) struct TestQp {
    pub(crate) qp: *mut abi::Qp,
    pub(crate) area: Arc<Area>,
    pub(crate) sends: WorkRing,
    pub(crate) receives: WorkRing,
    data_at: u32,
}

/// A send that the daemon fetched.
pub(crate) struct Fetched {
    pub(crate) header: SendHeader,
    pub(crate) buffers: Vec<Buffer>,
    /// The payload, if it came by value.
    pub(crate) copied: Option<Vec<u8>>,
}

impl TestQp {
    /// Returns every byte that both ends share.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.area.length()];
        self.area.read(0, &mut bytes);
        bytes
    }

    /// Returns the next send, as the daemon reads it; its slot stays in use.
    pub(crate) fn fetch(&mut self) -> Option<Fetched> {
        let slot = self.sends.fetch().expect("sane indices")?;
        let header: SendHeader = slot.header();
        let buffers = (0..header.buffers as usize).map(|index| slot.buffer::<SendHeader>(index));
        let buffers = buffers.map(|buffer| buffer.expect("it fits")).collect();
        let copied = (header.flags & send_flag::DATA != 0).then(|| {
            let mut bytes = vec![0; header.data_length as usize];
            let at = self.data_at + header.data_offset;
            self.area.read(at as usize, &mut bytes);
            bytes
        });
        Some(Fetched {
            header,
            buffers,
            copied,
        })
    }

    /// Frees the slots of `count` sends that were fetched.
    pub(crate) fn release(&mut self, count: usize) {
        for _ in 0..count {
            self.sends.release();
        }
        self.sends.show_released();
    }

    /// Takes all sends and frees their slots; returns how many there were.
    pub(crate) fn carry_out(&mut self) -> u32 {
        let mut count = 0;
        while self.sends.fetch().expect("sane indices").is_some() {
            self.sends.release();
            count += 1;
        }
        self.sends.show_released();
        count
    }
}

impl TestDevice {
    pub(crate) fn pd(&self) -> *mut abi::Pd {
        // SAFETY: the context is open.
        let pd = unsafe { ibv_alloc_pd(self.context()) };
        assert!(!pd.is_null());
        pd
    }

    pub(crate) fn cq(&self, entries: c_int) -> *mut abi::Cq {
        // SAFETY: the context is open, and there is no channel.
        let cq = unsafe { ibv_create_cq(self.context(), entries, null_mut(), null_mut(), 0) };
        assert!(!cq.is_null());
        cq
    }

    /// Returns the daemon's end of a CQ.
    pub(crate) fn completions(&self, cq: *mut abi::Cq) -> CompletionRing {
        // SAFETY: a CQ of this device.
        let handle = unsafe { (*cq).handle };
        let daemon = self.daemon();
        let memory = daemon.cqs.iter().find(|cq| cq.handle == handle);
        let memory = memory.expect("it is there");
        CompletionRing::new(Arc::clone(&memory.area), memory.plan.ring)
    }

    pub(crate) fn mr(&self, pd: *mut abi::Pd, bytes: &mut [u8], access: u32) -> *mut abi::Mr {
        let start = bytes.as_mut_ptr().cast();
        // SAFETY: the domain is of this device.
        let mr = unsafe { ibv_reg_mr(pd, start, bytes.len(), access as c_int) };
        assert!(!mr.is_null());
        mr
    }

    /// Makes a queue pair in a state, with all operations that its service has for `ibv_wr_*`.
    pub(crate) fn qp(&self, pd: *mut abi::Pd, service: c_uint, state: c_uint) -> TestQp {
        let cq = self.cq(16);
        // SAFETY: numbers and pointers.
        let mut init: abi::QpInitAttrEx = unsafe { core::mem::zeroed() };
        (init.send_cq, init.recv_cq, init.pd) = (cq, cq, pd);
        (init.qp_type, init.cap) = (service, CAPACITY);
        init.comp_mask = PD_AND_OPERATIONS;
        // SAFETY: an open context and attributes with objects of it.
        let qp = unsafe { create_qp_ex(self.context(), &raw mut init) };
        assert!(!qp.is_null());
        let mut attr = abi::QpAttr {
            qp_state: state,
            ..abi::QpAttr::default()
        };
        // SAFETY: the queue pair was just made.
        assert_eq!(unsafe { ibv_modify_qp(qp, &raw mut attr, STATE) }, 0);
        let daemon = self.daemon();
        let memory = daemon.queue_pairs.last().expect("it was made");
        TestQp {
            qp,
            area: Arc::clone(&memory.area),
            sends: WorkRing::new(Arc::clone(&memory.area), memory.plan.send),
            receives: WorkRing::new(Arc::clone(&memory.area), memory.plan.recv),
            data_at: memory.plan.send.data_at,
        }
    }
}
