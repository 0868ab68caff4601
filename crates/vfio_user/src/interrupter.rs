//! Interrupts system calls that wait because of a client.
//!
//! ```text
//!   a thread that calls               the thread `interrupter`
//!   number becomes odd ── wakes it ─► every LOOK: is it the odd number of the look before?
//!   write(2)           ◄── SIGURG ──  then, again and again until it is another one
//!   number becomes even               sleeps when nobody has called for a while
//! ```
//! The signal's handler does nothing, and is installed without `SA_RESTART`: a call that waits ends with EINTR, and a
//! call that does not wait is not affected. A signal that arrives after its call may end `epoll_wait` early, without an
//! event.
//!
//! A call costs one exchange and two stores more, and the thread does not wake while there are no calls. This module
//! knows neither the purpose of a call nor what happens to the client that made it wait.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Time between two looks. A call seen by two looks is overdue: no write to an eventfd takes that long. Others wait
/// behind an overdue call for at most 8 ms.
const LOOK: Duration = Duration::from_millis(4);

/// Time between two signals to an overdue thread: a signal just before its call began has no effect.
const AGAIN: Duration = Duration::from_millis(1);

/// Looks without a call before the thread sleeps, 200 ms: one call a second wakes it once a second.
const QUIET: u32 = 50;

/// The signal. It is ignored by default, so a process without the handler is not harmed.
const SIGNAL: libc::c_int = libc::SIGURG;

static INTERRUPTER: Interrupter = Interrupter {
    callers: Mutex::new(Vec::new()),
    thread: Mutex::new(None),
    asleep: AtomicBool::new(false),
};

thread_local! {
    static CALLER: Enrolled = Enrolled::this_thread();
}

/// Starts watching calls of this process. Call it before [`interruptible`].
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start() -> io::Result<()> {
    INTERRUPTER.start()
}

/// Makes a system call that ends with EINTR if it waits for long.
#[inline]
pub(crate) fn interruptible<T>(call: impl FnOnce() -> T) -> T {
    CALLER.with(|caller| caller.0.during(call))
}

/// A thread that makes interruptible calls.
struct CallingThread {
    thread: libc::pid_t,
    /// Number of begins and ends of calls: odd during a call.
    calls: AtomicU64,
    /// Value of `calls` at the last look.
    seen: AtomicU64,
}

impl CallingThread {
    #[inline]
    fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        // No other thread writes. The exchange comes before the look at `asleep`, as the interrupter sets `asleep`
        // before it looks at `calls`.
        let begun = self.calls.load(Relaxed).wrapping_add(1);
        self.calls.swap(begun, SeqCst);
        if INTERRUPTER.asleep.load(SeqCst) {
            INTERRUPTER.wake();
        }
        let result = call();
        self.calls.store(begun.wrapping_add(1), Release);
        result
    }

    fn look(&self) -> Seen {
        let calls = self.calls.load(SeqCst);
        let is_same = self.seen.swap(calls, Relaxed) == calls;
        match (is_same, calls % 2 == 1) {
            (true, true) => Seen::Overdue,
            (true, false) => Seen::Quiet,
            (false, _) => Seen::Calls,
        }
    }

    fn interrupt(&self) {
        // SAFETY: plain numbers. A thread that has ended since is not in this process any more, or another thread has
        // its number now, to which the handler does no harm.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.thread, SIGNAL) };
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Quiet,
    Calls,
    Overdue,
}

/// Keeps a thread on the list from its first call until it ends.
struct Enrolled(Arc<CallingThread>);

impl Enrolled {
    fn this_thread() -> Self {
        let caller = Arc::new(CallingThread {
            thread: rustix::thread::gettid().as_raw_nonzero().get(),
            calls: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        });
        INTERRUPTER.callers().push(Arc::clone(&caller));
        Self(caller)
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        INTERRUPTER
            .callers()
            .retain(|caller| !Arc::ptr_eq(caller, &self.0));
    }
}

struct Interrupter {
    callers: Mutex<Vec<Arc<CallingThread>>>,
    thread: Mutex<Option<Thread>>,
    asleep: AtomicBool,
}

impl Interrupter {
    fn callers(&self) -> MutexGuard<'_, Vec<Arc<CallingThread>>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&'static self) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            install_handler()?;
            let named = thread::Builder::new().name("interrupter".to_owned());
            let started = named.spawn(|| self.run())?;
            *thread = Some(started.thread().clone());
        }
        Ok(())
    }

    fn run(&self) {
        let mut quiet = 0;
        loop {
            let seen = self.look();
            quiet = if seen == Seen::Quiet { quiet + 1 } else { 0 };
            if quiet < QUIET {
                thread::sleep(if seen == Seen::Overdue { AGAIN } else { LOOK });
            } else {
                self.sleep();
                quiet = 0;
            }
        }
    }

    /// Looks at all threads, interrupts the overdue ones, and returns the most urgent result.
    fn look(&self) -> Seen {
        let callers = self.callers();
        let looks = callers.iter().map(|caller| {
            let seen = caller.look();
            if seen == Seen::Overdue {
                caller.interrupt();
            }
            seen
        });
        looks.max().unwrap_or(Seen::Quiet)
    }

    /// Sleeps until a call wakes it. A call that begins before `asleep` is set is found by the look after it.
    fn sleep(&self) {
        self.asleep.store(true, SeqCst);
        if self.look() != Seen::Quiet {
            self.asleep.store(false, SeqCst);
        }
        while self.asleep.load(SeqCst) {
            thread::park();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.asleep.swap(false, SeqCst) {
            let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(thread) = &*thread {
                thread.unpark();
            }
        }
    }
}

fn install_handler() -> io::Result<()> {
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is a valid value of this plain C structure: no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the handler has the one-argument form, as without SA_SIGINFO, and does nothing; `action` outlives the
    // call.
    match unsafe { libc::sigaction(SIGNAL, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustix::io::{Errno, read};
    use rustix::pipe::pipe;

    /// Reads from a pipe that never has data, and so waits.
    fn waits() -> Result<usize, Errno> {
        let (from, _to) = pipe().unwrap();
        interruptible(|| read(&from, &mut [0; 1]))
    }

    #[test]
    fn a_call_that_waits_is_interrupted_also_after_a_rest() {
        start().unwrap();
        assert_eq!(waits(), Err(Errno::INTR));
        while !INTERRUPTER.asleep.load(SeqCst) {
            thread::yield_now();
        }
        assert_eq!(waits(), Err(Errno::INTR));
        assert_eq!(thread::spawn(waits).join().unwrap(), Err(Errno::INTR));
    }

    #[test]
    fn calls_that_do_not_wait_are_not_touched() {
        start().unwrap();
        let (from, to) = pipe().unwrap();
        let overdue = thread::spawn(waits);
        while !overdue.is_finished() {
            assert_eq!(interruptible(|| rustix::io::write(&to, &[7])), Ok(1));
            assert_eq!(interruptible(|| read(&from, &mut [0; 1])), Ok(1));
        }
        assert_eq!(overdue.join().unwrap(), Err(Errno::INTR));
    }
}
