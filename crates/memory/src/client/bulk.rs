//! process_vm_*: long copies to and from a process of our own user.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Direction;

/// A process that process_vm_* may be used on.
#[derive(Debug)]
pub(super) struct Bulk {
    pid: Pid,
    /// Tells whether `pid` is still that process.
    alive: OwnedFd,
    refused: AtomicBool,
}

impl Bulk {
    /// `pid`, if it is there.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        Some(Self {
            pid,
            alive: pidfd_open(pid, PidfdFlags::empty()).ok()?,
            refused: AtomicBool::new(false),
        })
    }

    /// Bytes moved; `None`: use the descriptor. `ours` is good for `length` bytes in that direction.
    pub(super) fn transfer(
        &self,
        way: Direction,
        address: u64,
        ours: *mut u8,
        length: usize,
    ) -> Option<usize> {
        if self.refused.load(Relaxed) {
            return None;
        }
        let local = libc::iovec {
            iov_base: ours.cast(),
            iov_len: length,
        };
        let remote = libc::iovec {
            iov_base: address as *mut c_void,
            iov_len: length,
        };
        let pid = self.pid.as_raw_nonzero().get();
        // SAFETY: `local` is good for `length` bytes in that direction, as for `by_descriptor`; the
        // other address is only looked up in the other process.
        let moved = unsafe {
            match way {
                Direction::Read => libc::process_vm_readv(pid, &local, 1, &remote, 1, 0),
                Direction::Write => libc::process_vm_writev(pid, &local, 1, &remote, 1, 0),
            }
        };
        let error = std::io::Error::last_os_error().raw_os_error();
        if moved < 0 && matches!(error, Some(libc::EPERM | libc::ESRCH | libc::ENOSYS)) {
            self.refused.store(true, Relaxed);
        }
        usize::try_from(moved).ok().filter(|moved| *moved > 0)
    }

    /// Ask before each copy. A process descriptor is readable once its process has ended.
    pub(super) fn is_alive(&self) -> bool {
        let mut asked = [PollFd::new(&self.alive, PollFlags::IN)];
        poll(
            &mut asked,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        ) == Ok(0)
    }
}
