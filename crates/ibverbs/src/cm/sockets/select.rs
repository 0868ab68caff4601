//! `rselect`, built on `rpoll`.

use core::ffi::c_int;

use super::poll::{entry, poll};
use crate::errno::{Errno, Result};

/// The events of `poll` that stand for the three sets of `select`.
const SETS: [(i16, i16); 3] = [
    (libc::POLLIN, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

/// # Safety
/// The sets are null or sets.
unsafe fn select(count: c_int, sets: [*mut libc::fd_set; 3], timeout: c_int) -> Result<c_int> {
    let mut entries = Vec::new();
    for fd in 0..count {
        let mut wanted = 0;
        for (set, (asked, _)) in sets.iter().zip(SETS) {
            // SAFETY: as promised.
            if !set.is_null() && unsafe { libc::FD_ISSET(fd, *set) } {
                wanted |= asked;
            }
        }
        if wanted != 0 {
            entries.push(entry(fd, wanted));
        }
    }
    poll(&mut entries, timeout)?;
    let mut bits = 0;
    for (set, (asked, found)) in sets.iter().zip(SETS) {
        if set.is_null() {
            continue;
        }
        // SAFETY: as promised.
        unsafe { libc::FD_ZERO(*set) };
        for entry in &entries {
            if entry.events & asked != 0 && entry.revents & found != 0 {
                // SAFETY: as promised.
                unsafe { libc::FD_SET(entry.fd, *set) };
                bits += 1;
            }
        }
    }
    Ok(bits)
}

/// `rselect`.
///
/// # Safety
/// The sets and the timeout are null or what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rselect(
    count: c_int,
    reads: *mut libc::fd_set,
    writes: *mut libc::fd_set,
    exceptions: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    // SAFETY: as the caller promises.
    let limit = unsafe { timeout.as_ref() }.map_or(-1, |limit| {
        let millis = limit.tv_sec.saturating_mul(1000) + limit.tv_usec / 1000;
        millis.clamp(0, i64::from(i32::MAX)) as c_int
    });
    // SAFETY: as the caller promises.
    let found = unsafe { select(count, [reads, writes, exceptions], limit) };
    found.unwrap_or_else(|Errno(value)| {
        crate::errno::set(value);
        -1
    })
}
