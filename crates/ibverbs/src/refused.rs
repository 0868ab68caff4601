//! Stand-ins for what this library does not offer: one function per kind of answer, so that a program gets `EOPNOTSUPP`
//! in the way that the function it called reports errors.
//!
//! The table `names.txt` maps each name to its stand-in. C passes arguments in registers or on a stack that the caller
//! cleans, so one function without parameters stands in for any of them.

use core::ffi::c_int;

use crate::errno;

/// Stands in for functions that return `NULL` and set `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn vrdma_refuse_null() -> usize {
    errno::set(libc::EOPNOTSUPP);
    0
}

/// Stands in for functions that return the error number.
#[unsafe(no_mangle)]
pub extern "C" fn vrdma_refuse_errno() -> c_int {
    errno::set(libc::EOPNOTSUPP);
    libc::EOPNOTSUPP
}

/// Stands in for functions that return -1 and set `errno`; 64 bits wide for those that return a `ssize_t`.
#[unsafe(no_mangle)]
pub extern "C" fn vrdma_refuse_minus_one() -> isize {
    errno::set(libc::EOPNOTSUPP);
    -1
}

/// Stands in for functions whose 0 means nothing found.
#[unsafe(no_mangle)]
pub extern "C" fn vrdma_refuse_zero() -> usize {
    0
}

/// Stands in for functions without a result.
#[unsafe(no_mangle)]
pub extern "C" fn vrdma_refuse_nothing() {}

/// The one private name that is data: providers read it as "do not hide EIO".
#[unsafe(no_mangle)]
pub static vrdma_refuse_false: u8 = 0;
