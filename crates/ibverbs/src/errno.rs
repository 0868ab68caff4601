//! `errno`, which every entry point must leave alone unless it fails.

use core::ffi::c_int;

/// An error number, as C functions return it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// The outcome of an operation, which C learns as an error number.
pub type Result<T> = core::result::Result<T, Errno>;

impl Errno {
    /// Returns the error that the last failed function of C has set.
    pub fn last() -> Self {
        std::io::Error::last_os_error().into()
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Sets the calling thread's `errno`.
pub fn set(value: c_int) {
    // SAFETY: the C library returns the address of the calling thread's own variable, valid while
    // the thread runs.
    unsafe { *libc::__errno_location() = value }
}

/// Reports an outcome for functions that return 0 or an error number.
pub fn number(outcome: Result<()>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(Errno(value)) => {
            set(value);
            value
        }
    }
}

/// Reports an outcome for functions that return 0, or -1 and `errno`.
pub fn minus_one(outcome: Result<()>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(Errno(value)) => {
            set(value);
            -1
        }
    }
}

/// Reports an outcome for functions that return a pointer, or `NULL` and `errno`.
pub fn pointer<T>(outcome: Result<*mut T>) -> *mut T {
    outcome.unwrap_or_else(|Errno(value)| {
        set(value);
        core::ptr::null_mut()
    })
}
