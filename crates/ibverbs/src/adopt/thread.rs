//! The thread in which pages are exchanged, for as long as one exchange lasts; and the thread of [`super::unmapped`],
//! which stays.
//!
//! It is no thread of the program's, so nothing of the program makes it touch the pages while they are away: no signal
//! handler, and no completion of an io_uring, which the kernel carries out in the thread that began it. What runs in it
//! must not allocate while it holds the lock of [`super::STATE`]: the thread that holds the allocator's lock may wait
//! for a page.

use std::io;
use std::mem::MaybeUninit;
use std::thread::Builder;
use std::time::Duration;

/// Bytes of its stack: enough for some structures, and for what libraries keep for each thread.
const STACK_BYTES: usize = 128 << 10;

/// Does something in a thread of its own, with all signals blocked in both threads.
pub(super) fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let _kept = Signals::keep();
    // All that the thread needs is moved into it: the caller's stack may lie in the pages.
    let thread = Builder::new().stack_size(STACK_BYTES).spawn(work)?;
    thread.join().map_err(|_| io::Error::other("a panic"))
}

/// Begins a thread that lasts as long as the process, with all signals blocked in it.
pub(super) fn lasting(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let _kept = Signals::keep();
    Builder::new()
        .name("vrdma-unmapped".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(work)
        .map(drop)
}

/// Returns the processor time that this thread has taken so far.
pub(super) fn processor_time() -> Duration {
    let mut taken = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the answer.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut taken) };
    debug_assert!(failed == 0, "every thread has that clock");
    Duration::new(taken.tv_sec as u64, taken.tv_nsec as u32)
}

/// Blocks all signals of the thread that has it. On Linux `sigprocmask` is about one thread, and unlike
/// `pthread_sigmask` it has the same version in all glibcs.
struct Signals(libc::sigset_t);

impl Signals {
    fn keep() -> Self {
        let mut before = MaybeUninit::uninit();
        // SAFETY: two places for sets of signals; the first call fills the one, the second the other.
        unsafe {
            let mut all = MaybeUninit::uninit();
            libc::sigfillset(all.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the set that was in force.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.0, core::ptr::null_mut()) };
    }
}
