//! Adopted memory that the program unmaps while a region has it, and what it maps there later.
//!
//! Some programs keep registrations for memory that they have freed, and use them when the same addresses come back
//! (libfabric's cache with `memhooks` does not see what libc unmaps inside itself: a large `free`, a heap that shrinks). By
//! address the daemon finds whatever is there. Adopted memory would be the old pages, of which the program sees nothing.
//!
//! ```text
//!   munmap, brk, mmap over it ── waits ──► thread: IS_COMING, read ──► UNMAPPED
//!                                                                        │
//!   post ── IS_COMING? ── yes ─► what regions have of it and is mapped ◄─┘
//!                                  `─► adopted again, into the same place of the file: the daemon sees it
//! ```
//!
//! The kernel tells (`UFFD_EVENT_UNMAP`, userfaultfd(2)), and whoever unmaps waits until the thread has read that. It may have an
//! allocator's lock, so the thread allocates nothing and waits for nobody who might. What is not mapped again yet is
//! looked for at each post.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::yield_now;

use parking_lot::Mutex;

use super::kernel::Range;
use super::ranges::Ranges;
use super::rules;
use super::tools::Tools;
use super::userfault::{self, Userfault, Watch};
use super::{REGISTERING, STATE, addresses, thread, tools_if_open};

/// Whether something was unmapped, or is about to be: all that posts look at.
static IS_COMING: AtomicBool = AtomicBool::new(false);
/// Events that are read, or about to be; and those that were noted.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static NOTED: AtomicU64 = AtomicU64::new(0);
/// Those that were noted when all regions were asked last.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// What was unmapped and is not adopted again. Nothing is allocated under its lock.
static UNMAPPED: Mutex<Ranges> = Mutex::new(Ranges::new());

/// The watch over adopted memory, and its thread.
pub(super) struct Unmapping(Arc<Userfault>);

impl Unmapping {
    /// Errors: no such userfaultfd, no thread, or a filter of system calls, which might end the program for the thread's.
    pub(super) fn begin(lent: impl FnOnce() -> Option<OwnedFd>) -> io::Result<Self> {
        if userfault::is_filtered() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let events = Arc::new(Userfault::of_events(lent)?);
        let read = Arc::clone(&events);
        thread::lasting(move || read_events(&read))?;
        Ok(Self(events))
    }

    /// From here on it is told when some of the range is unmapped. Nothing waits for any page: none is protected. Where
    /// the program watches its memory itself, it is not told.
    pub(super) fn watch(&self, range: Range) {
        let _ = self.0.watch(range, Watch::Writes);
    }

    pub(super) fn unwatch(&self, range: Range) {
        self.0.unwatch(range);
    }

    /// In a child, which has neither the memory nor the thread.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

/// Notes what is unmapped, for as long as the process lasts.
fn read_events(events: &Userfault) {
    keep_only(events.descriptor());
    loop {
        let told = events.next_unmapped(|| {
            BEGUN.fetch_add(1, Ordering::SeqCst);
            IS_COMING.store(true, Ordering::SeqCst);
        });
        if let Ok(Some(range)) = told {
            note(range);
        }
        NOTED.store(BEGUN.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// Descriptors of its own: programs close what they do not know, and another file may get the number. The program's are
/// not kept open by it.
fn keep_only(fd: i32) {
    // Each call closes nothing where it cannot make the thread's descriptors its own first.
    let unshare = libc::CLOSE_RANGE_UNSHARE;
    // SAFETY: take numbers. The thread uses one descriptor.
    unsafe {
        libc::syscall(libc::SYS_close_range, fd + 1, i32::MAX, unshare);
        if fd > 0 {
            libc::syscall(libc::SYS_close_range, 0, fd - 1, unshare);
        }
    }
}

fn note(range: Range) {
    let mut unmapped = loop {
        // To wait in the usual way may allocate.
        match UNMAPPED.try_lock() {
            Some(unmapped) => break unmapped,
            None => yield_now(),
        }
    };
    if !unmapped.add(range) {
        // Too many: all between the first and the last one may be unmapped, and is looked at.
        let all = unmapped.all();
        if let (Some(first), Some(last)) = (all.first(), all.last()) {
            let start = first.start.min(range.start);
            let end = last.end.max(range.end);
            unmapped.add(Range { start, end });
        }
    }
}

/// Before a work request is posted: what is mapped again where a region has adopted memory is adopted, too.
#[inline]
pub(crate) fn adopt_what_came() {
    if IS_COMING.load(Ordering::Relaxed) {
        look();
    }
}

/// In a child, which has neither the memory nor who would note more.
pub(super) fn end_in_child() {
    IS_COMING.store(false, Ordering::SeqCst);
}

/// Whether the next post looks.
#[cfg(test)]
pub(super) fn is_coming() -> bool {
    IS_COMING.load(Ordering::SeqCst)
}

#[cold]
fn look() {
    // A program that closes what it does not know adopts nothing any more.
    let Some(tools) = tools_if_open().filter(|tools| tools.is_whole()) else {
        return IS_COMING.store(false, Ordering::SeqCst);
    };
    let _held = REGISTERING.lock();
    let begun = BEGUN.load(Ordering::SeqCst);
    while NOTED.load(Ordering::SeqCst) < begun {
        yield_now();
    }
    // There may be many regions, so they are asked once for each event. Then one system call for each stretch tells whether
    // something is there by now.
    let is_new = ASKED.swap(begun, Ordering::SeqCst) != begun;
    let stretches = stretches().into_iter();
    let came: Vec<Range> = stretches
        .filter(|stretch| is_new || is_mapped(tools, *stretch))
        .flat_map(|stretch| came(tools, stretch))
        .collect();
    if !came.is_empty() {
        adopt(tools, came);
    }
    if UNMAPPED.lock().all().is_empty() {
        IS_COMING.store(false, Ordering::SeqCst);
        // What came meanwhile has said so before.
        if BEGUN.load(Ordering::SeqCst) != begun {
            IS_COMING.store(true, Ordering::SeqCst);
        }
    }
}

/// What is unmapped.
fn stretches() -> Vec<Range> {
    let count = UNMAPPED.lock().all().len();
    let mut stretches = Vec::with_capacity(count);
    // What has come since has been announced, too, and is looked for at the next post.
    stretches.extend(UNMAPPED.lock().all().iter().take(count));
    stretches
}

fn is_mapped(tools: &Tools, range: Range) -> bool {
    let next = tools.places.at_or_behind(range.start);
    next.is_ok_and(|place| place.range.overlaps(range))
}

/// The parts of unmapped memory that are to be adopted now. What no region has is forgotten.
fn came(tools: &Tools, unmapped: Range) -> Vec<Range> {
    let mut parts = Vec::new();
    let mut rest = unmapped;
    for of_regions in addresses::adopted_in(unmapped) {
        forget(Range {
            start: rest.start,
            end: of_regions.start,
        });
        rest.start = of_regions.end;
        parts.extend(plain_parts(tools, of_regions));
    }
    forget(rest);
    parts
}

/// The parts of a range that can be adopted. Those that are adopted already are forgotten.
fn plain_parts(tools: &Tools, range: Range) -> Vec<Range> {
    let mut parts = Vec::new();
    let mut rest = range;
    while !rest.is_empty()
        && let Ok(place) = tools.places.at_or_behind(rest.start)
    {
        let part = place.range.common(rest);
        if part.is_empty() {
            break;
        }
        rest.start = part.end;
        if place.is_of(tools.identity()) {
            forget(part);
        } else if place.is_plain() && !rules::is_in_use(place.range, part) {
            // Whether a region has some of it by address does not matter, as it does elsewhere: nothing goes on in memory
            // that came since the last post.
            parts.push(part);
        }
    }
    parts
}

/// What cannot be adopted now is tried again at the next post.
fn adopt(tools: &'static Tools, parts: Vec<Range>) {
    let adopted = parts.clone();
    let work = move || {
        let mut state = STATE.lock();
        for part in &adopted {
            state.adopt_again(tools, *part);
        }
        drop(state);
    };
    if thread::apart(work).is_ok() {
        for part in parts {
            plain_parts(tools, part);
        }
    }
}

fn forget(range: Range) {
    if !range.is_empty() {
        // A hole in a range when there are too many of them stays, and is looked at again.
        UNMAPPED.lock().remove(range);
    }
}
