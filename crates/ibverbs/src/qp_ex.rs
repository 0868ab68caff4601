//! Work requests built call by call: `ibv_wr_start`, `ibv_wr_send`, `ibv_wr_set_sge`, ...,
//! `ibv_wr_complete`.
//!
//! ```text
//!   start: lock   wr_*: a new draft   set_*: fills the last draft   complete: all drafts into the ring, unlock
//!                                                                   abort: drafts away, unlock
//! ```
//!
//! Drafts become slots only when all are good, so that a refused chain leaves nothing behind.

use core::ffi::{c_int, c_uint, c_void};

use parking_lot::MutexGuard;
use vrdma_provider::BUFFERS_MAX;
use vrdma_provider::layout::{Buffer, SendHeader, opcode, send_flag};

use crate::abi;
use crate::address::AddressHandle;
use crate::errno::{self, Errno, Result};
use crate::open::OpenDevice;
use crate::qp::{QueuePair, Wanted};
use crate::request::{self, UD, allowed};
use crate::send::{Payload, SendSide};

/// `IBV_QP_INIT_ATTR_PD` and `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
const PD: u32 = 1;
const CREATE_FLAGS: u32 = 1 << 2;
const SEND_OPS: u32 = 1 << 6;

/// A request that is not finished.
struct Draft {
    header: SendHeader,
    /// Its part of the builder's buffers.
    buffers: core::ops::Range<usize>,
    /// Its part of the builder's bytes, when it is inline.
    inline: Option<core::ops::Range<usize>>,
}

/// The drafts between start and complete; memory is kept for the next time.
#[derive(Default)]
pub(crate) struct Builder {
    drafts: Vec<Draft>,
    buffers: Vec<Buffer>,
    bytes: Vec<u8>,
    failure: Option<Errno>,
}

impl Builder {
    fn clear(&mut self) {
        self.drafts.clear();
        self.buffers.clear();
        self.bytes.clear();
        self.failure = None;
    }

    fn fail(&mut self, error: Errno) {
        self.failure.get_or_insert(error);
    }

    fn add_buffers(&mut self, list: impl Iterator<Item = Buffer>) {
        let Some(draft) = self.drafts.last_mut() else {
            return;
        };
        let start = self.buffers.len();
        self.buffers.extend(list.take(BUFFERS_MAX as usize + 1));
        draft.buffers = start..self.buffers.len();
    }

    /// Copies now: the program may use its memory again when the call returns.
    ///
    /// # Safety
    /// Each piece is readable.
    unsafe fn add_inline(&mut self, pieces: impl Iterator<Item = (*const u8, usize)>, most: usize) {
        let start = self.bytes.len();
        for (from, length) in pieces {
            if self.bytes.len() - start + length > most {
                return self.fail(Errno(libc::EINVAL));
            }
            if length > 0 {
                // SAFETY: as promised.
                self.bytes
                    .extend_from_slice(unsafe { core::slice::from_raw_parts(from, length) });
            }
        }
        if let Some(draft) = self.drafts.last_mut() {
            draft.inline = Some(start..self.bytes.len());
        }
    }
}

/// Operations that a service has, as bits of `enum ibv_qp_create_send_ops_flags`.
fn offered(service: c_uint) -> u64 {
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

/// The builder between start and complete.
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

/// # Safety
/// As for [`SendSide::push`].
unsafe fn finish(queue_pair: &QueuePair, device: &OpenDevice, side: &mut SendSide) -> Result<()> {
    let builder = std::mem::take(&mut side.builder);
    // SAFETY: as promised.
    let outcome = unsafe { push_all(queue_pair, device, side, &builder) };
    side.builder = builder;
    outcome?;
    side.queue.publish();
    Ok(())
}

/// # Safety
/// As for [`SendSide::push`].
unsafe fn push_all(
    queue_pair: &QueuePair,
    device: &OpenDevice,
    side: &mut SendSide,
    builder: &Builder,
) -> Result<()> {
    if let Some(error) = builder.failure {
        return Err(error);
    }
    if side.queue.room() < builder.drafts.len() as u32 {
        return Err(Errno(libc::ENOMEM));
    }
    if builder
        .drafts
        .iter()
        .any(|draft| draft.buffers.len() > side.queue.buffers())
    {
        return Err(Errno(libc::EINVAL));
    }
    for draft in &builder.drafts {
        let bytes = draft.inline.clone().map(|range| &builder.bytes[range]);
        let own = bytes.map(|bytes| Buffer {
            addr: bytes.as_ptr() as u64,
            length: bytes.len() as u32,
            lkey: 0,
        });
        let payload = match &own {
            Some(buffer) => Payload {
                buffers: core::slice::from_ref(buffer),
                inline: true,
            },
            None => Payload {
                buffers: &builder.buffers[draft.buffers.clone()],
                inline: false,
            },
        };
        // SAFETY: inline bytes are the builder's, the others as promised.
        unsafe { side.push(queue_pair, device, draft.header, payload)? };
    }
    Ok(())
}

/// Begins a draft with the cookie and flags that the program put into the public structure.
///
/// # Safety
/// As for [`side`].
unsafe fn draft(
    qp: *mut abi::QpEx,
    opcode: u32,
    more: impl FnOnce(SendHeader) -> Result<SendHeader>,
) {
    // SAFETY: as promised.
    let (queue_pair, side) = unsafe { side(qp) };
    // SAFETY: fields of a structure that is there.
    let (wr_id, flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
    let known = send_flag::FENCE | send_flag::SIGNALED | send_flag::SOLICITED;
    let header = SendHeader {
        wr_id,
        opcode,
        flags: flags & known,
        ..SendHeader::default()
    };
    let builder = &mut side.builder;
    if !allowed(queue_pair.service, opcode) {
        return builder.fail(Errno(libc::EINVAL));
    }
    match more(header) {
        Ok(header) => builder.drafts.push(Draft {
            header,
            buffers: 0..0,
            inline: None,
        }),
        Err(error) => builder.fail(error),
    }
}

unsafe extern "C" fn wr_send(qp: *mut abi::QpEx) {
    // SAFETY: the program calls it only after a start.
    unsafe { draft(qp, opcode::SEND, Ok) };
}

unsafe extern "C" fn wr_send_imm(qp: *mut abi::QpEx, imm: u32) {
    // SAFETY: the program calls it only after a start.
    unsafe {
        draft(qp, opcode::SEND_WITH_IMM, |header| {
            Ok(SendHeader {
                imm: imm.to_ne_bytes(),
                ..header
            })
        })
    };
}

unsafe extern "C" fn wr_send_inv(qp: *mut abi::QpEx, rkey: u32) {
    // SAFETY: the program calls it only after a start.
    unsafe {
        draft(qp, opcode::SEND_WITH_INV, |header| {
            Ok(SendHeader {
                imm: rkey.to_ne_bytes(),
                ..header
            })
        })
    };
}

unsafe extern "C" fn wr_local_inv(qp: *mut abi::QpEx, rkey: u32) {
    // SAFETY: the program calls it only after a start.
    unsafe {
        draft(qp, opcode::LOCAL_INV, |header| {
            Ok(SendHeader { rkey, ..header })
        })
    };
}

unsafe extern "C" fn wr_rdma_read(qp: *mut abi::QpEx, rkey: u32, remote_addr: u64) {
    // SAFETY: the program calls it only after a start.
    unsafe {
        draft(qp, opcode::RDMA_READ, |header| {
            Ok(SendHeader {
                rkey,
                remote_addr,
                ..header
            })
        })
    };
}

unsafe extern "C" fn wr_rdma_write(qp: *mut abi::QpEx, rkey: u32, remote_addr: u64) {
    // SAFETY: the program calls it only after a start.
    unsafe {
        draft(qp, opcode::RDMA_WRITE, |header| {
            Ok(SendHeader {
                rkey,
                remote_addr,
                ..header
            })
        })
    };
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut abi::QpEx, rkey: u32, remote_addr: u64, imm: u32) {
    let more = |header| {
        Ok(SendHeader {
            rkey,
            remote_addr,
            imm: imm.to_ne_bytes(),
            ..header
        })
    };
    // SAFETY: the program calls it only after a start.
    unsafe { draft(qp, opcode::RDMA_WRITE_WITH_IMM, more) };
}

unsafe extern "C" fn wr_atomic_cmp_swp(
    qp: *mut abi::QpEx,
    rkey: u32,
    remote_addr: u64,
    compare_add: u64,
    swap: u64,
) {
    let more = |header| {
        Ok(SendHeader {
            rkey,
            remote_addr,
            compare_add,
            swap,
            ..header
        })
    };
    // SAFETY: the program calls it only after a start.
    unsafe { draft(qp, opcode::ATOMIC_CMP_AND_SWP, more) };
}

unsafe extern "C" fn wr_atomic_fetch_add(
    qp: *mut abi::QpEx,
    rkey: u32,
    remote_addr: u64,
    compare_add: u64,
) {
    let more = |header| {
        Ok(SendHeader {
            rkey,
            remote_addr,
            compare_add,
            ..header
        })
    };
    // SAFETY: the program calls it only after a start.
    unsafe { draft(qp, opcode::ATOMIC_FETCH_AND_ADD, more) };
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
        draft(qp, opcode::BIND_MW, |header| request::bind(header, &bind));
    }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut abi::QpEx, ah: *mut abi::Ah, target: u32, qkey: u32) {
    // SAFETY: the program calls it only after a start, with an address handle of this library.
    let ((queue_pair, side), handle) = unsafe { (side(qp), ah.cast::<AddressHandle>().as_ref()) };
    match (side.builder.drafts.last_mut(), handle) {
        (Some(draft), Some(handle)) if queue_pair.service == UD => {
            draft.header = SendHeader {
                target,
                qkey,
                address: handle.vector,
                ..draft.header
            };
        }
        _ => side.builder.fail(Errno(libc::EINVAL)),
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
