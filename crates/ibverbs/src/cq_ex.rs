//! Extended completion queues: completions read field by field.

#[cfg(test)]
mod tests;

use core::ffi::{c_int, c_uint};

use parking_lot::MutexGuard;
use vrdma_provider::layout::Completion;

use crate::abi;
use crate::completion::Ring;
use crate::cq::{CompletionQueue, Wanted};
use crate::errno::{self, Errno, Result};
use crate::lost;
use crate::open::OpenDevice;
use crate::patience::Rest;

/// Fields of `enum ibv_create_cq_wc_flags`: all of the plain completion, the time stamp, and the
/// same in wall-clock time.
const OFFERED: u64 = 0x7f | WITH_TIMESTAMP | WITH_WALLCLOCK;
const WITH_TIMESTAMP: u64 = 1 << 7;
const WITH_WALLCLOCK: u64 = 1 << 11;
/// `IBV_CQ_INIT_ATTR_MASK_FLAGS` and `_PD`.
const KNOWN_MASK: u32 = 3;
/// Single-threaded and ignore-overrun.
const KNOWN_FLAGS: u32 = 3;

/// `verbs_context.create_cq_ex`.
pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut abi::Context,
    attr: *mut abi::CqInitAttrEx,
) -> *mut abi::CqEx {
    // SAFETY: the header's wrapper passes an open context and what its caller says are attributes.
    let (device, attr) = unsafe { (OpenDevice::of(context), &*attr) };
    errno::pointer(device.and_then(|device| {
        check(attr)?;
        let wanted = Wanted {
            entries: attr.cqe,
            cq_context: attr.cq_context,
            channel: attr.channel,
            vector: attr.comp_vector,
        };
        // SAFETY: the channel is null or of this library, as the caller promises.
        unsafe { CompletionQueue::create(device, &wanted, |ex| fill(ex, attr.wc_flags)) }
    }))
}

fn check(attr: &abi::CqInitAttrEx) -> Result<()> {
    let flags = if attr.comp_mask & 1 != 0 {
        attr.flags
    } else {
        0
    };
    if attr.comp_mask & !KNOWN_MASK != 0 {
        Err(Errno(libc::EINVAL))
    } else if attr.wc_flags & !OFFERED != 0 || flags & !KNOWN_FLAGS != 0 {
        Err(Errno(libc::EOPNOTSUPP))
    } else {
        Ok(())
    }
}

fn fill(ex: &mut abi::CqEx, wanted: u64) {
    ex.start_poll = Some(start_poll);
    ex.next_poll = Some(next_poll);
    ex.end_poll = Some(end_poll);
    ex.read_opcode = Some(read_opcode);
    ex.read_vendor_err = Some(read_nothing);
    ex.read_wc_flags = Some(read_wc_flags);
    ex.read_byte_len = Some(read_byte_len);
    ex.read_imm_data = Some(read_imm_data);
    ex.read_qp_num = Some(read_qp_num);
    ex.read_src_qp = Some(read_src_qp);
    ex.read_slid = Some(read_nothing);
    ex.read_sl = Some(read_sl);
    ex.read_dlid_path_bits = Some(read_no_byte);
    ex.read_completion_ts = (wanted & WITH_TIMESTAMP != 0).then_some(read_timestamp);
    ex.read_completion_wallclock_ns = (wanted & WITH_WALLCLOCK != 0).then_some(read_wallclock);
}

/// Takes the next completion into the public structure and the ring's place for it.
fn take(queue: &CompletionQueue, ring: &mut Ring) -> c_int {
    let Some(completion) = ring.next() else {
        return libc::ENOENT;
    };
    show(queue, ring, completion);
    0
}

fn show(queue: &CompletionQueue, ring: &mut Ring, completion: Completion) {
    ring.current = completion;
    // SAFETY: the public fields are read by the thread that polls, which is this one.
    unsafe {
        let ex = queue.ex.get();
        (*ex).wr_id = completion.wr_id;
        (*ex).status = completion.status;
    }
}

/// Does the same with a request that the lost daemon did not carry out.
#[cold]
fn begin_flushed(queue: &CompletionQueue, device: &OpenDevice) -> c_int {
    let Some(completion) = lost::flushed(device, queue) else {
        return libc::ENOENT;
    };
    let mut ring = queue.ring.lock();
    show(queue, &mut ring, completion);
    MutexGuard::leak(ring);
    0
}

unsafe extern "C" fn start_poll(cq: *mut abi::CqEx, attr: *mut abi::PollCqAttr) -> c_int {
    // SAFETY: the header's wrapper passes a CQ, and null or attributes.
    let (queue, attr) = unsafe { (CompletionQueue::of(cq.cast()), attr.as_ref()) };
    let Ok((queue, device)) = queue else {
        return libc::EIO;
    };
    if attr.is_some_and(|attr| attr.comp_mask != 0) {
        return libc::EINVAL;
    }
    loop {
        let (outcome, rest) = begin(queue);
        if outcome != 0 && queue.has_lost(device) {
            return begin_flushed(queue, device);
        }
        if rest == Rest::Return {
            return outcome;
        }
        std::thread::yield_now();
        if rest == Rest::Yield {
            // A second look, for the same reason as in `poll_cq`.
            return begin(queue).0;
        }
    }
}

/// Takes a completion, and with it the lock until `end_poll`; without a completion, tells what the poll does next.
fn begin(queue: &CompletionQueue) -> (c_int, Rest) {
    let mut ring = queue.ring.lock();
    let outcome = take(queue, &mut ring);
    let rest = ring.rest((outcome == 0).into());
    if outcome == 0 {
        MutexGuard::leak(ring);
    }
    (outcome, rest)
}

/// Returns the ring of a CQ between start and end of a poll.
///
/// # Safety
/// The calling thread has started to poll, so that it holds the lock, and has no other reference.
unsafe fn ring<'a>(cq: *mut abi::CqEx) -> (&'a CompletionQueue, &'a mut Ring) {
    // SAFETY: as promised.
    unsafe {
        let queue = &*cq.cast::<CompletionQueue>();
        (queue, &mut *queue.ring.data_ptr())
    }
}

unsafe extern "C" fn next_poll(cq: *mut abi::CqEx) -> c_int {
    // SAFETY: the program calls it only after a start that succeeded.
    let (queue, ring) = unsafe { ring(cq) };
    take(queue, ring)
}

unsafe extern "C" fn end_poll(cq: *mut abi::CqEx) {
    // SAFETY: the program calls it only after a start that succeeded, whose lock this ends.
    unsafe { (*cq.cast::<CompletionQueue>()).ring.force_unlock() };
}

/// Defines functions that read one field of the current completion.
macro_rules! readers {
    ($($name:ident -> $type:ty = |$completion:ident| $value:expr;)*) => {
        $(
            unsafe extern "C" fn $name(cq: *mut abi::CqEx) -> $type {
                // SAFETY: the program calls it only between start and end of a poll.
                let $completion = unsafe { &ring(cq).1.current };
                $value
            }
        )*
    };
}

readers! {
    read_opcode -> c_uint = |completion| completion.opcode;
    read_wc_flags -> c_uint = |completion| completion.flags;
    read_byte_len -> u32 = |completion| completion.byte_len;
    read_imm_data -> u32 = |completion| u32::from_ne_bytes(completion.imm);
    read_qp_num -> u32 = |completion| completion.qp_num;
    read_src_qp -> u32 = |completion| completion.src_qp;
    read_sl -> u8 = |completion| completion.sl as u8;
    read_timestamp -> u64 = |completion| completion.timestamp;
    read_wallclock -> u64 = |completion| wallclock(completion.timestamp);
}

unsafe extern "C" fn read_nothing(_cq: *mut abi::CqEx) -> u32 {
    0
}

unsafe extern "C" fn read_no_byte(_cq: *mut abi::CqEx) -> u8 {
    0
}

/// Converts a moment of the monotonic clock to the time of day.
fn wallclock(monotonic: u64) -> u64 {
    let now = |clock| {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the structure is writable.
        unsafe { libc::clock_gettime(clock, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    now(libc::CLOCK_REALTIME)
        .wrapping_sub(now(libc::CLOCK_MONOTONIC))
        .wrapping_add(monotonic)
}
