//! Work requests built call by call: `ibv_wr_start`, `ibv_wr_send`, `ibv_wr_set_sge`, ...,
//! `ibv_wr_complete`.
//!
//! ```text
//!   start: lock   wr_*: a new draft   set_*: fills the last draft   complete: all drafts into the ring, unlock
//!                                                                   abort: drafts away, unlock
//! ```
//!
//! Drafts become slots only when all are good, so that a refused chain leaves nothing behind.

#[cfg(test)]
mod tests;

use core::ffi::{c_int, c_void};

use parking_lot::MutexGuard;
use vrdma_provider::layout::Buffer;
use vrdma_provider::operation::{Operation, Remote};

use crate::abi;
use crate::adopt::unmapped;
use crate::builder::finish;
use crate::errno::{self, Errno, Result};
use crate::qp::QueuePair;
use crate::request::{self, UD, allowed};
use crate::send::SendSide;

/// Fills in the functions of the public structure.
pub(crate) fn fill(ex: &mut abi::QpEx) {
    ex.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
    ex.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
    ex.wr_bind_mw = Some(wr_bind_mw);
    ex.wr_local_inv = Some(wr_local_inv);
    ex.wr_rdma_read = Some(wr_rdma_read);
    ex.wr_rdma_write = Some(wr_rdma_write);
    ex.wr_rdma_write_imm = Some(wr_rdma_write_imm);
    ex.wr_send = Some(wr_send);
    ex.wr_send_imm = Some(wr_send_imm);
    ex.wr_send_inv = Some(wr_send_inv);
    ex.wr_set_ud_addr = Some(wr_set_ud_addr);
    ex.wr_set_inline_data = Some(wr_set_inline_data);
    ex.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    ex.wr_set_sge = Some(wr_set_sge);
    ex.wr_set_sge_list = Some(wr_set_sge_list);
    ex.wr_start = Some(wr_start);
    ex.wr_complete = Some(wr_complete);
    ex.wr_abort = Some(wr_abort);
}

/// Returns the builder between start and complete.
///
/// # Safety
/// The calling thread has started, so that it holds the lock, and has no other reference.
unsafe fn side<'a>(qp: *mut abi::QpEx) -> (&'a QueuePair, &'a mut SendSide) {
    // SAFETY: as promised.
    unsafe {
        let queue_pair = &*qp.cast::<QueuePair>();
        (queue_pair, &mut *queue_pair.send.data_ptr())
    }
}

unsafe extern "C" fn wr_start(qp: *mut abi::QpEx) {
    // SAFETY: the header's wrapper passes a queue pair.
    let queue_pair = unsafe { &*qp.cast::<QueuePair>() };
    let mut side = queue_pair.send.lock();
    side.builder.clear();
    // Locked until complete or abort.
    MutexGuard::leak(side);
}

unsafe extern "C" fn wr_abort(qp: *mut abi::QpEx) {
    // SAFETY: the program calls it only after a start, whose lock this ends.
    unsafe { (*qp.cast::<QueuePair>()).send.force_unlock() };
}

unsafe extern "C" fn wr_complete(qp: *mut abi::QpEx) -> c_int {
    unmapped::adopt_what_came();
    // SAFETY: the program calls it only after a start.
    let (queue_pair, side) = unsafe { side(qp) };
    // SAFETY: its context is open.
    let outcome = unsafe { QueuePair::of(qp.cast()) }.and_then(|(_, device)| {
        // SAFETY: the drafts are of a program that promises what verbs demand.
        unsafe { finish(queue_pair, device, side) }?;
        Ok(device)
    });
    // SAFETY: the lock of the start ends here.
    unsafe { queue_pair.send.force_unlock() };
    errno::number(outcome.map(|device| device.ringer.ring(queue_pair.doorbell)))
}

/// Begins a draft with the cookie and flags that the program put into the public structure.
///
/// # Safety
/// As for [`side`].
unsafe fn draft(qp: *mut abi::QpEx, operation: Result<Operation>) {
    // SAFETY: as promised.
    let (queue_pair, side) = unsafe { side(qp) };
    // SAFETY: fields of a structure that is there.
    let (wr_id, flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
    let builder = &mut side.builder;
    match operation {
        Ok(operation) if allowed(queue_pair.service, operation.opcode()) => {
            let mut slot = request::slot(wr_id, flags);
            operation.write(&mut slot);
            builder.begin(slot);
        }
        Ok(_) => builder.fail(Errno(libc::EINVAL)),
        Err(error) => builder.fail(error),
    }
}

/// Defines functions that begin a draft with one operation.
macro_rules! drafts {
    ($($name:ident($($operand:ident: $type:ty),*) = $operation:expr;)*) => {
        $(
            unsafe extern "C" fn $name(qp: *mut abi::QpEx, $($operand: $type),*) {
                // SAFETY: the program calls it only after a start.
                unsafe { draft(qp, Ok($operation)) };
            }
        )*
    };
}

drafts! {
    wr_send() = Operation::Send;
    wr_send_imm(imm: u32) = Operation::SendImm(imm.to_ne_bytes());
    wr_send_inv(rkey: u32) = Operation::SendInvalidate(rkey);
    wr_local_inv(rkey: u32) = Operation::LocalInvalidate(rkey);
    wr_rdma_read(rkey: u32, addr: u64) = Operation::Read(Remote { addr, rkey });
    wr_rdma_write(rkey: u32, addr: u64) = Operation::Write(Remote { addr, rkey });
    wr_rdma_write_imm(rkey: u32, addr: u64, imm: u32) =
        Operation::WriteImm(Remote { addr, rkey }, imm.to_ne_bytes());
    wr_atomic_cmp_swp(rkey: u32, addr: u64, compare: u64, swap: u64) =
        Operation::CompareSwap { remote: Remote { addr, rkey }, compare, swap };
    wr_atomic_fetch_add(rkey: u32, addr: u64, add: u64) =
        Operation::FetchAdd { remote: Remote { addr, rkey }, add };
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut abi::QpEx,
    mw: *mut abi::Mw,
    rkey: u32,
    info: *const abi::MwBindInfo,
) {
    // SAFETY: the program calls it only after a start, with a window and valid facts.
    unsafe {
        let bind = abi::BindMw {
            mw,
            rkey,
            bind_info: *info,
        };
        draft(qp, request::bind(&bind));
    }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut abi::QpEx, ah: *mut abi::Ah, target: u32, qkey: u32) {
    let ud = abi::Ud {
        ah,
        remote_qpn: target,
        remote_qkey: qkey,
    };
    // SAFETY: the program calls it only after a start, with an address handle of this library.
    let (queue_pair, side) = unsafe { side(qp) };
    let builder = &mut side.builder;
    let Some(draft) = builder.drafts.last_mut() else {
        return builder.fail(Errno(libc::EINVAL));
    };
    // SAFETY: as above.
    let outcome = unsafe { request::send_to(&mut draft.header, &ud) };
    if outcome.is_err() || queue_pair.service != UD {
        builder.fail(Errno(libc::EINVAL));
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut abi::QpEx, lkey: u32, addr: u64, length: u32) {
    // SAFETY: the program calls it only after a start.
    let (_, side) = unsafe { side(qp) };
    side.builder
        .add_buffers(std::iter::once(Buffer { addr, length, lkey }));
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut abi::QpEx, count: usize, list: *const abi::Sge) {
    // SAFETY: the program calls it only after a start, with a list of that length.
    let (_, side) = unsafe { side(qp) };
    side.builder.add_buffers((0..count).map(|index| {
        // SAFETY: as above.
        let sge = unsafe { list.add(index).read() };
        Buffer {
            addr: sge.addr,
            length: sge.length,
            lkey: sge.lkey,
        }
    }));
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut abi::QpEx, addr: *mut c_void, length: usize) {
    let piece = (addr.cast_const().cast::<u8>(), length);
    // SAFETY: the program calls it only after a start, with readable memory.
    unsafe {
        let (queue_pair, side) = side(qp);
        side.builder.add_inline(
            std::iter::once(piece),
            queue_pair.capacity.max_inline as usize,
        );
    }
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut abi::QpEx,
    count: usize,
    list: *const abi::DataBuf,
) {
    let pieces = (0..count).map(|index| {
        // SAFETY: the program passes a list of that length.
        let piece = unsafe { &*list.add(index) };
        (piece.addr.cast_const().cast::<u8>(), piece.length)
    });
    // SAFETY: the program calls it only after a start, with readable memory.
    unsafe {
        let (queue_pair, side) = side(qp);
        side.builder
            .add_inline(pieces, queue_pair.capacity.max_inline as usize);
    }
}
