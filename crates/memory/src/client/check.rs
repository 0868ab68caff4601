//! Checks what the descriptors are that a client sends, without waiting for the client.
//!
//! A file may lie on a file system that the client serves itself. Only the tenant's thread may ask anything of such a
//! file, be it its status or its end.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FileType, fcntl_get_seals, fstat, fstatfs, readlinkat};

use super::{Direction, NotMemory, by_descriptor};
use crate::tenant::Tenant;

/// `f_type` of procfs (linux/magic.h).
const PROC_SUPER_MAGIC: u64 = 0x9fa0;

/// Whether a file's pages are memory of the kernel's own file systems, tmpfs and hugetlbfs: mapping, using and closing
/// such a file never waits. Only these have seals, and reading seals involves no file system.
pub fn is_in_memory(fd: impl AsFd) -> bool {
    fcntl_get_seals(fd).is_ok()
}

/// Returns the descriptor, if it is a process's memory and has `nonce` at `address`. Any other descriptor is closed
/// where that does no harm.
pub(super) fn memory(
    fd: OwnedFd,
    address: u64,
    nonce: u64,
    tenant: &Tenant,
) -> Result<OwnedFd, NotMemory> {
    let offset = i64::try_from(address);
    let fd = tenant.keep(fd);
    let judged = tenant.ask(move || {
        let fd = fd.take().ok_or(NotMemory::TooSlow)?;
        let shown = is_memory(&fd)
            .then(|| offset.ok().and_then(|offset| word(&fd, offset)))
            .ok_or(NotMemory::WrongFile);
        match shown {
            Ok(Some(shown)) if shown == nonce => Ok(fd),
            Ok(_) => Err(NotMemory::WrongContents),
            Err(error) => Err(error),
        }
    });
    judged.unwrap_or(Err(NotMemory::TooSlow))
}

/// Reads the word at `offset`.
fn word(fd: &OwnedFd, offset: i64) -> Option<u64> {
    let mut word = [0; 8];
    let length = word.len();
    // SAFETY: the array has as many bytes.
    let read = unsafe { by_descriptor(fd, Direction::Read, offset, word.as_mut_ptr(), length) };
    (read == Some(length)).then_some(u64::from_ne_bytes(word))
}

/// Whether it is a process's memory: other files of procfs may block a reader.
fn is_memory(fd: &OwnedFd) -> bool {
    let is_procfs = || fstatfs(fd).is_ok_and(|system| system.f_type as u64 == PROC_SUPER_MAGIC);
    let is_file = || {
        fstat(fd)
            .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::RegularFile)
    };
    is_named_mem(fd) && is_procfs() && is_file()
}

/// Whether the kernel calls the file `…/mem`.
fn is_named_mem(fd: &OwnedFd) -> bool {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let name = readlinkat(rustix::fs::CWD, link, Vec::new());
    name.is_ok_and(|name| name.to_bytes().ends_with(b"/mem"))
}
