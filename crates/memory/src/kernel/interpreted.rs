//! The stand-in under Miri. A file in memory is a file of the host that gives it its number and its length, and one
//! allocation that all its mappings share. Rights of mappings and seals have no effect: they are the kernel's business,
//! and tests of them need a kernel.

use std::alloc::{Layout, alloc_zeroed};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment of mappings.
const PAGE: usize = 4096;

/// Bytes of a file. They are never freed, so mappings stay valid.
struct Contents {
    start: *mut u8,
    length: usize,
}

// SAFETY: the bytes are foreign memory to all that map them, and only reached by raw pointers and atomics.
unsafe impl Send for Contents {}

/// Contents by inode number.
static FILES: Mutex<BTreeMap<u64, Contents>> = Mutex::new(BTreeMap::new());
static MADE: AtomicUsize = AtomicUsize::new(0);

fn files() -> MutexGuard<'static, BTreeMap<u64, Contents>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(fd: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let status = File::from(fd.try_clone_to_owned()?).metadata()?;
    Ok((status.ino(), status.len()))
}

/// Makes a file in memory of `length` zeros.
pub(crate) fn create(length: u64) -> io::Result<OwnedFd> {
    let name = format!(
        "vrdma-miri-{}-{}",
        std::process::id(),
        MADE.fetch_add(1, Relaxed)
    );
    let path = std::env::temp_dir().join(name);
    let file = File::create_new(&path)?;
    fs::remove_file(&path)?;
    file.set_len(length)?;
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    let layout = Layout::from_size_align(length.max(1), PAGE);
    let layout = layout.map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the layout has a size.
    let start = unsafe { alloc_zeroed(layout) };
    files().insert(number(file.as_fd())?.0, Contents { start, length });
    Ok(file.into())
}

/// Whether the file was made here.
pub(crate) fn is_known(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(files().contains_key(&number(fd)?.0))
}

pub(crate) fn length(fd: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(number(fd)?.1)
}

/// Returns the `length` bytes from `from` on, which all mappings share.
pub(crate) fn map(fd: BorrowedFd<'_>, from: u64, length: usize) -> io::Result<*mut u8> {
    let (number, _) = number(fd)?;
    let files = files();
    let contents = files.get(&number).ok_or(io::ErrorKind::Unsupported)?;
    let from = usize::try_from(from).map_err(|_| io::ErrorKind::InvalidInput)?;
    match from.checked_add(length) {
        // SAFETY: inside the allocation, which is never freed.
        Some(end) if end <= contents.length => Ok(unsafe { contents.start.add(from) }),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
