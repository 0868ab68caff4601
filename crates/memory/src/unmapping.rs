//! Gives large stretches of address space back in a thread of its own.
//!
//! ```text
//!   last owner drops it ──► small, or many wait ──► munmap at once
//!                      └──► else ──► the thread: munmap
//! ```
//! Each GiB of pages that were accessed takes munmap some 50 ms, which is too long for the data path: all other adapters
//! of its shard would wait.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use crate::kernel;

/// From here on a stretch is large: half a millisecond.
const LARGE_BYTES: usize = 8 << 20;

/// Stretches that wait for the thread. Who maps and unmaps faster than it keeps pace with unmaps the rest itself.
const WAITING_MAX: usize = 64;

/// A whole mapping that nobody uses any more.
struct Stretch {
    start: *mut c_void,
    length: usize,
}

// SAFETY: address space is not tied to a thread, and nobody else has it.
unsafe impl Send for Stretch {}

impl Stretch {
    fn unmap(self) {
        // SAFETY: as the caller of `unmap` promised.
        unsafe { kernel::unmap(self.start, self.length) };
    }
}

/// Unmaps it, now or soon.
///
/// # Safety
/// It is a whole mapping of the caller's, to which no pointer is used any more.
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

/// Of the whole process; it begins with the first large stretch. `None` if the system had no thread then.
fn thread() -> Option<&'static SyncSender<Stretch>> {
    static THREAD: OnceLock<Option<SyncSender<Stretch>>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let (stretches, waiting) = sync_channel::<Stretch>(WAITING_MAX);
        let thread = thread::Builder::new().name("unmapping".to_owned());
        let begun = thread.spawn(move || waiting.into_iter().for_each(Stretch::unmap));
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
        for (name, length) in [("small", 4096), ("large", LARGE_BYTES as u64)] {
            let name = format!("unmapping-{name}");
            let file = memfd_create(&*name, MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, length).unwrap();
            let region = FileRegion::new(&file, (0, length), 0, true).unwrap();
            assert!(is_mapped(&name));
            drop(region);
            assert!(length > 4096 || !is_mapped(&name));
            while is_mapped(&name) {
                thread::yield_now();
            }
        }
    }
}
