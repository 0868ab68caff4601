//! The start of a worker: a fork that shares the descriptor table.
//!
//! The C library's `fork` cannot share it, so the system call is made directly. The library's work around the call is
//! not needed here: there is one thread, so no lock is held by another, and no fork handlers are registered. One part
//! is needed: the library keeps the thread's number in its control block, for locks that know their owner and for
//! signals to threads. The kernel writes the new number there itself if it gets the address (CLONE_CHILD_SETTID), as
//! with `fork`. Where the kernel does not reveal that address, the old number stays: it is the keeper's, which lives as
//! long as the worker, so no other thread is ever mistaken for this one, and `raise` asks the kernel since glibc 2.36.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::ptr;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::gettid;

use crate::complaint::complain;

/// Exit code of a worker that could not begin.
const EXIT_NO_BEGINNING: i32 = 1;
/// Exit code of a Rust program after a panic.
const EXIT_PANIC: i32 = 101;

/// Starts a process that does `work` and exits with its code. Returns the process number to the keeper.
pub(super) fn start(work: impl FnOnce() -> io::Result<i32>) -> io::Result<Pid> {
    // Otherwise both processes would write what is still buffered.
    io::stdout().flush()?;
    let keeper = getpid();
    let (flags, number_at) = match number_of_thread_at() {
        Some(at) => (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID, at),
        None => (0, ptr::null_mut()),
    };
    let flags = flags | libc::CLONE_FILES | libc::SIGCHLD;
    let none = ptr::null_mut::<libc::c_void>();
    // SAFETY: without CLONE_VM the child has a copy of all memory and goes on here, on its copy of the stack. The
    // process has one thread (`Keeper::new` checked), so the copy is consistent. The kernel writes only the number of
    // the thread, in the child, to where the C library keeps it. That address is passed twice: architectures differ in
    // which of the two arguments it is, and the other one is ignored.
    let result = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, number_at, number_at) };
    match result {
        0 => process::exit(begin(keeper, work)),
        -1 => Err(io::Error::last_os_error()),
        number => Pid::from_raw(number as i32).ok_or_else(|| io::ErrorKind::Other.into()),
    }
}

/// The worker's side of the start.
fn begin(keeper: Pid, work: impl FnOnce() -> io::Result<i32>) -> i32 {
    let begin = || end_with(keeper).and_then(|()| work());
    // A panic that unwinds further would go on in the keeper's code.
    let Ok(begun) = catch_unwind(AssertUnwindSafe(begin)) else {
        return EXIT_PANIC;
    };
    begun.unwrap_or_else(|error| {
        complain(format_args!("the worker cannot begin: {error}"));
        EXIT_NO_BEGINNING
    })
}

/// Ties the worker's life to the keeper's, which may have ended already.
fn end_with(keeper: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(keeper) {
        return Err(io::Error::other("its keeper has ended"));
    }
    Ok(())
}

/// Returns where the C library keeps the number of this thread, if the kernel reveals it and the number is there.
fn number_of_thread_at() -> Option<*mut libc::pid_t> {
    let mut at = ptr::null_mut::<libc::pid_t>();
    // SAFETY: the kernel writes one pointer to where `at` is.
    let result = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut at) };
    if result != 0 || at.is_null() {
        return None;
    }
    // SAFETY: the C library gave the kernel this address as that of an `int` of its own, for as long as the thread
    // lives.
    let number = unsafe { at.read() };
    (number == gettid().as_raw_nonzero().get()).then_some(at)
}
