//! The effect of `fork` on the child: nothing is left of the parent's objects.
//!
//! The rings are not mapped in the child, and the connection belongs to the parent. So a child is recognised by a
//! number that changes at each fork, which every open device remembers. A child may open a device of its own.

use core::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Returns how many forks lie between the first process and this one.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Starts to count forks.
pub(crate) fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is safe in a child of any process, and
        // the library is never unloaded (linked with `-z nodelete`).
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// `ibv_fork_init`: nothing to prepare, since no page is pinned and the daemon reaches the parent.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// `ibv_is_fork_initialized`: `IBV_FORK_UNNEEDED`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> c_int {
    2
}

/// `ibv_dontfork_range`, from the time of providers outside of rdma-core.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_base: *mut core::ffi::c_void, _size: usize) -> c_int {
    0
}

/// `ibv_dofork_range`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_base: *mut core::ffi::c_void, _size: usize) -> c_int {
    0
}
