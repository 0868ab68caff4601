//! Unmaps large stretches of address space in a thread of its own.
//!
//! ```text
//!   last owner drops it ──► small, or many wait ──► munmap at once
//!                      └──► else ──► the thread: pages, piece by piece, then munmap
//! ```
//! For each GiB of pages that were accessed, munmap takes 20 to 50 ms, in which nobody else in the process maps or
//! unmaps anything. All other adapters of a shard would wait for that. If a thread unmapped everything at once, all
//! threads that map memory would wait.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use crate::kernel;

/// Size from which a stretch is large, and size of the pieces that it is unmapped in: each takes a fraction of a
/// millisecond.
const LARGE_BYTES: usize = 8 << 20;

/// Stretches that wait for the thread. A caller that maps and unmaps faster than the thread unmaps the rest itself.
const WAITING_MAX: usize = 64;

/// A whole mapping that nobody uses any more.
struct Stretch {
    start: *mut c_void,
    length: usize,
}

// SAFETY: address space is not tied to a thread, and nobody else uses it.
unsafe impl Send for Stretch {}

impl Stretch {
    fn unmap_in_pieces(self) {
        for at in (0..self.length).step_by(LARGE_BYTES) {
            let length = LARGE_BYTES.min(self.length - at);
            let piece = self.start.cast::<u8>().wrapping_add(at);
            // SAFETY: in the mapping, which is a shared one of a file.
            unsafe { kernel::take_out(piece.cast(), length) };
        }
        self.unmap();
    }

    fn unmap(self) {
        // SAFETY: as the caller of `unmap` promised.
        unsafe { kernel::unmap(self.start, self.length) };
    }
}

/// Unmaps a stretch, now or soon.
///
/// # Safety
/// It is a whole shared mapping of the caller's, to which no pointer is used any more.
pub(crate) unsafe fn unmap(start: *mut c_void, length: usize) {
    let stretch = Stretch { start, length };
    let thread = (length >= LARGE_BYTES).then(thread).flatten();
    let left = match thread {
        Some(thread) => thread.try_send(stretch),
        None => return stretch.unmap(),
    };
    if let Err(TrySendError::Full(stretch) | TrySendError::Disconnected(stretch)) = left {
        stretch.unmap();
    }
}

/// The process-wide unmapping thread, started at the first large stretch. `None` if the system had no thread then.
fn thread() -> Option<&'static SyncSender<Stretch>> {
    static THREAD: OnceLock<Option<SyncSender<Stretch>>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let (stretches, waiting) = sync_channel::<Stretch>(WAITING_MAX);
        let thread = thread::Builder::new().name("unmapping".to_owned());
        let begun = thread.spawn(move || waiting.into_iter().for_each(Stretch::unmap_in_pieces));
        begun.ok().map(|_| stretches)
    });
    thread.as_ref()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;
    use crate::FileRegion;

    fn is_mapped(name: &str) -> bool {
        fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains(name))
    }

    #[test]
    fn small_stretches_go_at_once_and_large_ones_in_the_end() {
        for (name, length) in [("small", 4096), ("large", 2 * LARGE_BYTES as u64 + 4096)] {
            let name = format!("unmapping-{name}");
            let file = memfd_create(&*name, MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, length).unwrap();
            let region = FileRegion::new(&file, 0, length, 0, true).unwrap();
            assert!(is_mapped(&name));
            drop(region);
            assert!(length > 4096 || !is_mapped(&name));
            while is_mapped(&name) {
                thread::yield_now();
            }
        }
    }
}
