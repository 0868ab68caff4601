//! Queue pairs made with more than the plain attributes.

use core::ffi::c_uint;

use vrdma_provider::layout::opcode;

use crate::abi;
use crate::errno::{self, Errno, Result};
use crate::open::OpenDevice;
use crate::qp::{QueuePair, Wanted};
use crate::request::allowed;

/// `IBV_QP_INIT_ATTR_PD` and `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
const PD: u32 = 1;
const CREATE_FLAGS: u32 = 1 << 2;
const SEND_OPS: u32 = 1 << 6;

/// Returns the operations that a service has, as bits of `enum ibv_qp_create_send_ops_flags`.
pub(crate) fn offered(service: c_uint) -> u64 {
    const BITS: [(u64, u32); 10] = [
        (1 << 0, opcode::RDMA_WRITE),
        (1 << 1, opcode::RDMA_WRITE_WITH_IMM),
        (1 << 2, opcode::SEND),
        (1 << 3, opcode::SEND_WITH_IMM),
        (1 << 4, opcode::RDMA_READ),
        (1 << 5, opcode::ATOMIC_CMP_AND_SWP),
        (1 << 6, opcode::ATOMIC_FETCH_AND_ADD),
        (1 << 7, opcode::LOCAL_INV),
        (1 << 8, opcode::BIND_MW),
        (1 << 9, opcode::SEND_WITH_INV),
    ];
    BITS.iter()
        .filter(|(_, operation)| allowed(service, *operation))
        .map(|(bit, _)| bit)
        .sum()
}

/// `verbs_context.create_qp_ex`.
pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut abi::Context,
    init: *mut abi::QpInitAttrEx,
) -> *mut abi::Qp {
    // SAFETY: the header's wrapper passes an open context and what its caller says are attributes.
    let (device, init) = unsafe { (OpenDevice::of(context), &mut *init) };
    errno::pointer(device.and_then(|device| {
        let mut wanted = wanted(init)?;
        // SAFETY: as the caller promises.
        let qp = unsafe { QueuePair::create(device, &mut wanted)? };
        init.cap = wanted.attr.cap;
        Ok(qp)
    }))
}

fn wanted(init: &abi::QpInitAttrEx) -> Result<Wanted> {
    let mask = init.comp_mask;
    let is_extended = mask & SEND_OPS != 0;
    if mask & !(PD | SEND_OPS | CREATE_FLAGS) != 0
        || (mask & CREATE_FLAGS != 0 && init.create_flags != 0)
        || (is_extended && init.send_ops_flags & !offered(init.qp_type) != 0)
    {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    if mask & PD == 0 {
        return Err(Errno(libc::EINVAL));
    }
    let attr = abi::QpInitAttr {
        qp_context: init.qp_context,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        cap: init.cap,
        qp_type: init.qp_type,
        sq_sig_all: init.sq_sig_all,
    };
    Ok(Wanted {
        pd: init.pd,
        attr,
        is_extended,
    })
}

/// `ibv_qp_to_qp_ex`: null unless it was made with operations for `ibv_wr_*`.
///
/// # Safety
/// `qp` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut abi::Qp) -> *mut abi::QpEx {
    // SAFETY: as the caller promises.
    if unsafe { (*qp.cast::<QueuePair>()).is_extended } {
        qp.cast()
    } else {
        core::ptr::null_mut()
    }
}
