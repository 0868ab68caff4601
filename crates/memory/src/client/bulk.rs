//! process_vm_*: long copies to and from a process of our own user.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Direction, Parts};

/// Vectors that one call takes (UIO_MAXIOV).
const PARTS_MAX: usize = 1024;

/// A process that process_vm_* may be used on.
#[derive(Debug)]
pub(super) struct Bulk {
    pid: Pid,
    /// Tells whether `pid` is still that process.
    alive: OwnedFd,
    refused: AtomicBool,
}

impl Bulk {
    /// Opens `pid`, if there is such a process.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        Some(Self {
            pid,
            alive: pidfd_open(pid, PidfdFlags::empty()).ok()?,
            refused: AtomicBool::new(false),
        })
    }

    /// Whether the word at `address` is `word`.
    pub(super) fn shows(&self, address: u64, word: u64) -> bool {
        let mut found = [0u8; 8];
        let read = self.transfer(Direction::Read, address, found.as_mut_ptr(), found.len());
        read == Some(found.len()) && u64::from_ne_bytes(found) == word
    }

    /// Returns the bytes moved; `None`: use the descriptor. `ours` is good for `length` bytes in that direction.
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
        let Parts { vectors, count } = way.parts(address as *mut c_void, length);
        let (to, count) = (vectors.as_ptr(), count as libc::c_ulong);
        let pid = self.pid.as_raw_nonzero().get();
        // SAFETY: `local` is good for `length` bytes in that direction, as for `by_descriptor`; the
        // other address is only looked up in the other process.
        let moved = unsafe {
            match way {
                Direction::Read => libc::process_vm_readv(pid, &local, 1, to, count, 0),
                Direction::WriteOnce | Direction::WriteTailLast => {
                    libc::process_vm_writev(pid, &local, 1, to, count, 0)
                }
            }
        };
        let error = std::io::Error::last_os_error().raw_os_error();
        if moved < 0 && matches!(error, Some(libc::EPERM | libc::ESRCH | libc::ENOSYS)) {
            self.refused.store(true, Relaxed);
        }
        usize::try_from(moved).ok().filter(|moved| *moved > 0)
    }

    /// Reads from `address` into one part after the other. Returns whether all of it could be read.
    pub(super) fn read_parts(&self, address: u64, parts: &mut [&mut [u8]]) -> bool {
        if self.refused.load(Relaxed) {
            return false;
        }
        let mut wanted = 0;
        let local = parts.iter_mut().map(|part| {
            wanted += part.len();
            libc::iovec {
                iov_base: part.as_mut_ptr().cast(),
                iov_len: part.len(),
            }
        });
        let local: Vec<_> = local.take(PARTS_MAX).collect();
        let remote = libc::iovec {
            iov_base: address as *mut c_void,
            iov_len: wanted,
        };
        let (pid, count) = (
            self.pid.as_raw_nonzero().get(),
            local.len() as libc::c_ulong,
        );
        // SAFETY: every vector is a part that is ours to write for the length of the call; the other
        // address is only looked up in the other process.
        let read = unsafe { libc::process_vm_readv(pid, local.as_ptr(), count, &remote, 1, 0) };
        local.len() == parts.len() && usize::try_from(read) == Ok(wanted)
    }

    /// Whether the process is still there, to be asked before each copy. A process descriptor is readable once its
    /// process has ended.
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
