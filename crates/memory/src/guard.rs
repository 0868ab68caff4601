//! Lets the process survive a file that shrinks under our mapping.
//!
//! Touching a page beyond the end of a mapped file raises SIGBUS, and a guest's RAM is a file that another process can
//! truncate. The signal handler looks up the address among the guarded mappings, marks the mapping as lost and puts
//! anonymous zeros in its place, so the interrupted access finishes; the accessing code checks the mark afterwards and
//! reports a fault. A SIGBUS of any other origin ends the process as if no handler were there.
//!
//! The handler may interrupt anything, so it only reads atomics and makes one system call. Threads that touch guarded
//! memory must not block SIGBUS: otherwise the kernel kills the process.

#[cfg(all(test, loom))]
mod model;
mod slot;

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, Once, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use slot::Slot;

/// Atomics that slots are made of: those of this machine, or those of loom's model.
mod words {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, fence};
}

/// Most mappings of the process that can be guarded at once: all that the kernel gives a process by default. A guest
/// has a few dozen, a file with the queues of a process has one. The table is 1.6 MiB of zero pages until used. When it
/// is full, further maps are refused.
const MAX_GUARDS: usize = 1 << 16;

static SLOTS: [Slot; MAX_GUARDS] = [const { vacant_slot() }; MAX_GUARDS];
/// Number of slots ever used: the handler looks no further.
static REACHED: AtomicUsize = AtomicUsize::new(0);
static VACANT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static INSTALLED: Once = Once::new();

/// Keeps one mapping in the handler's table.
pub(crate) struct Guard {
    index: usize,
    mark: Mark,
}

/// The mark of a guarded mapping, valid as long as its [`Guard`] is there. Every access checks it.
#[derive(Clone, Copy)]
pub(crate) struct Mark(&'static Slot);

impl Guard {
    /// Guards `length` bytes from `start`, which must be a whole mapping of the caller that stays mapped until the
    /// guard is dropped. `None` when the table is full.
    pub(crate) fn new(start: usize, length: usize) -> Option<Self> {
        INSTALLED.call_once(install);
        let index = claim()?;
        let slot = &SLOTS[index];
        slot.publish(start, start + length);
        let mark = Mark(slot);
        Some(Self { index, mark })
    }

    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }
}

impl Mark {
    /// Whether an access has hit a hole. Ask after the access: the handler sets the mark before it puts zeros in place,
    /// so the zeros are never taken for bytes of the file.
    #[inline]
    pub(crate) fn is_lost(self) -> bool {
        self.0.is_lost()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.mark.0.withdraw();
        VACANT
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self.index);
    }
}

const fn vacant_slot() -> Slot {
    let (start, end) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Slot::of(start, end, AtomicBool::new(false))
}

fn claim() -> Option<usize> {
    let mut vacant = VACANT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(index) = vacant.pop() {
        return Some(index);
    }
    let index = REACHED.load(Relaxed);
    (index < MAX_GUARDS).then(|| REACHED.store(index + 1, Release))?;
    Some(index)
}

/// Installs the handler, except under Miri, which has no signals, and no files that shrink.
fn install() {
    if cfg!(miri) {
        return;
    }
    // SAFETY: an all-zero sigaction is a valid value of this plain C structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction =
        on_sigbus as extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler has the three-argument form that SA_SIGINFO announces and is
    // async-signal-safe; `action` outlives the call.
    let result = unsafe { libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) };
    assert_eq!(result, 0, "sigaction takes SIGBUS and a valid handler");
}

extern "C" fn on_sigbus(_: i32, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler; a positive code means
    // that it raised the signal itself for a memory access, so the address field is set.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code <= 0 || !fill_with_zeros(address) {
        die_by_default();
    }
}

/// Replaces the guarded mapping around `address`: all of it, not only the page. It is of no more use, and so a copy
/// over a large hole faults once and the number of mappings stays the same.
fn fill_with_zeros(address: usize) -> bool {
    let reached = &SLOTS[..REACHED.load(Acquire)];
    let found = reached
        .iter()
        .find_map(|slot| Some((slot, slot.range_around(address)?)));
    let Some((slot, (start, end))) = found else {
        return false;
    };
    slot.lose();
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the range is a whole mapping owned by the guard's owner, which is in the middle of the access that raised
    // the signal and thus keeps it mapped; it is only reached by raw pointers, so changed contents break no reference.
    unsafe { mmap_anonymous(start as *mut c_void, end - start, rights, flags) }.is_ok()
}

/// Ends the process: the raised signal stays pending until the handler returns.
fn die_by_default() {
    // SAFETY: both calls are async-signal-safe and take valid constants.
    unsafe {
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
        libc::raise(libc::SIGBUS);
    }
}
