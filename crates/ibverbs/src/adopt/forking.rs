//! Adopted memory and `fork`: a child gets a copy, as of all other private memory.
//!
//! ```text
//!   prepare   nothing is exchanged from here on
//!   fork      adopted ranges are holes in the child (MADV_DONTFORK)
//!   child     fills them with private memory, copies from the file, tells the parent
//!   parent    waits for that, or for the child's end
//! ```
//!
//! Children of raw `clone` get holes: such a child ends when it touches one, and spoils nothing. The child of a process
//! that has begun to adopt does not adopt.

use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::calls::Bounds;
use super::kernel::{self, Range};
use super::tools::Tools;
use super::unmapped;
use super::{HUGE, STATE, State, tools_if_open};

/// Whether this process came into being by a `fork` after its parent had begun to adopt.
static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// Whether the thread that forks has the lock: between prepare and parent.
static IS_HELD: AtomicBool = AtomicBool::new(false);
/// Ends of the pipe by which the child tells the parent that it is done.
static READ: AtomicI32 = AtomicI32::new(-1);
static WRITE: AtomicI32 = AtomicI32::new(-1);

pub(super) fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Handles all forks from here on. Called early, so that other handlers in a child find its memory.
pub(super) fn watch() {
    // SAFETY: the handlers take one lock, make system calls and change atomics; the library is never unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
}

/// Returns the tools, if something may be adopted.
fn tools() -> Option<&'static Tools> {
    tools_if_open().filter(|_| !is_child())
}

extern "C" fn prepare() {
    let Some(tools) = tools() else { return };
    let mut state = STATE.lock();
    state.forget_all_gone(tools);
    if !state.ranges.all().is_empty() {
        open_pipe();
    }
    // The lock stays held for one of the other two handlers.
    std::mem::forget(state);
    IS_HELD.store(true, Ordering::Relaxed);
}

/// Opens the pipe. Without descriptors the parent does not wait, and what it writes meanwhile may be in the child's
/// copy.
fn open_pipe() {
    let mut ends: [c_int; 2] = [-1; 2];
    // SAFETY: a place for two descriptors.
    unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    READ.store(ends[0], Ordering::Relaxed);
    WRITE.store(ends[1], Ordering::Relaxed);
}

fn close(end: &AtomicI32) {
    let fd = end.swap(-1, Ordering::Relaxed);
    if fd >= 0 {
        // SAFETY: made for this fork, and nobody else's.
        unsafe { libc::close(fd) };
    }
}

extern "C" fn in_parent() {
    if !IS_HELD.swap(false, Ordering::Relaxed) {
        return;
    }
    close(&WRITE);
    let read = READ.load(Ordering::Relaxed);
    let mut told = 0u8;
    // SAFETY: room for the one byte.
    while read >= 0 && unsafe { libc::read(read, (&raw mut told).cast(), 1) } < 0 {
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            break;
        }
    }
    close(&READ);
    // SAFETY: this thread took it in `prepare`.
    unsafe { STATE.force_unlock() };
}

extern "C" fn in_child() {
    if !IS_HELD.swap(false, Ordering::Relaxed) {
        return;
    }
    Bounds::clear();
    unmapped::end_in_child();
    IS_CHILD.store(true, Ordering::Relaxed);
    if let Some(tools) = tools_if_open() {
        // SAFETY: this thread took the lock in `prepare`, and there are no others here. The lock is kept for ever.
        let state: &State = unsafe { &*STATE.data_ptr() };
        for range in state.ranges.all() {
            restore(tools, *range);
        }
        tools.close();
    }
    let write = WRITE.load(Ordering::Relaxed);
    if write >= 0 {
        // SAFETY: one byte. If the parent has ended, its reading end is closed, which must not raise a signal for this
        // child: so the child keeps the reading end open, too, until here.
        unsafe { libc::write(write, [1u8].as_ptr().cast(), 1) };
    }
    close(&WRITE);
    close(&READ);
}

/// Maps private memory in place of a hole, with the file's bytes. What is mapped there is not touched.
fn restore(tools: &Tools, range: Range) {
    let (rights, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_FIXED_NOREPLACE,
    );
    // SAFETY: the kernel replaces nothing.
    let mapped = unsafe { kernel::map_private(range.start, range.size(), rights, flags) };
    if mapped.is_err() {
        return;
    }
    if range.size() >= HUGE {
        // SAFETY: changes no contents. Without huge pages it takes longer.
        let _ = unsafe { kernel::advise(range, libc::MADV_HUGEPAGE) };
    }
    let mut at = range.start;
    while let Some(data) = tools.data_from(at).filter(|data| *data < range.end) {
        let end = tools.hole_from(data).unwrap_or(range.end).min(range.end);
        // SAFETY: the part was mapped above, and nobody knows it yet.
        let read =
            unsafe { libc::pread(tools.descriptor(), data as *mut _, end - data, data as i64) };
        match usize::try_from(read) {
            Ok(read) if read > 0 => at = data + read,
            _ => return,
        }
    }
}
