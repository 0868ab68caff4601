//! A UD queue pair that is ready, with its completions.

use core::mem::ManuallyDrop;

use super::super::completions::Completions;
use crate::abi::{Qp, QpAttr, QpCap, QpInitAttr};
use crate::cm::device::Opened;
use crate::errno::{Errno, Result};
use crate::qp::ibv_create_qp;
use crate::qp_state::{ibv_destroy_qp, ibv_modify_qp};

/// `RDMA_UDP_QKEY`: the key of all datagram sockets.
const QKEY: u32 = 0x0123_4567;

/// `IBV_QPT_UD`.
const UD: u32 = 4;

/// INIT with index, port and key, RTR, RTS with a PSN: `enum ibv_qp_state` and `enum ibv_qp_attr_mask`.
const STEPS: [(u32, i32); 3] = [(1, 0x71), (2, 1), (3, 0x1_0001)];

pub(super) struct QueuePair {
    pub(super) qp: *mut Qp,
    pub(super) completions: ManuallyDrop<Completions>,
}

impl QueuePair {
    /// # Safety
    /// The device stays open, and so does its domain.
    pub(super) unsafe fn new(opened: &Opened, sends: u32, receives: u32) -> Result<Self> {
        // SAFETY: as promised.
        let completions = unsafe { Completions::new(opened.context, sends + receives)? };
        let mut attr = QpInitAttr {
            qp_context: core::ptr::null_mut(),
            send_cq: completions.cq,
            recv_cq: completions.cq,
            srq: core::ptr::null_mut(),
            cap: QpCap {
                max_send_wr: sends,
                max_recv_wr: receives,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: UD,
            sq_sig_all: 0,
        };
        // SAFETY: as promised, and a queue of the same device.
        let qp = unsafe { ibv_create_qp(opened.pd, &raw mut attr) };
        if qp.is_null() {
            let error = Errno::last();
            completions.release();
            return Err(error);
        }
        let pair = Self {
            qp,
            completions: ManuallyDrop::new(completions),
        };
        pair.prepare()?;
        Ok(pair)
    }

    fn prepare(&self) -> Result<()> {
        for (state, mask) in STEPS {
            let mut attributes = QpAttr {
                qp_state: state,
                qkey: QKEY,
                port_num: 1,
                ..QpAttr::default()
            };
            // SAFETY: this one's own.
            match unsafe { ibv_modify_qp(self.qp, &raw mut attributes, mask) } {
                0 => {}
                error => return Err(Errno(error)),
            }
        }
        Ok(())
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made by `new`; nobody uses the queue pair or its completions any more.
        unsafe {
            ibv_destroy_qp(self.qp);
            ManuallyDrop::take(&mut self.completions).release();
        }
    }
}
