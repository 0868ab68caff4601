//! Adopted memory that the program unmaps while a region has it, and what it maps there later.
//!
//! Some programs keep registrations for memory that they have freed, and use them when the same addresses come back
//! (libfabric's cache with `memhooks` does not see what libc unmaps inside itself: a large `free`, a heap that
//! shrinks). By address the daemon finds whatever is there. By adopted memory it would reach the old pages, which the
//! program does not see.
//!
//! ```text
//!   munmap, brk, mmap over it ── waits ──► thread: IS_COMING, read ──► UNMAPPED
//!                                                                        │
//!   post ── IS_COMING? ── yes ─► what regions have of it and is mapped ◄─┘
//!                                  `─► adopted again, into the same place of the file: the daemon sees it
//! ```
//!
//! The kernel reports it (`UFFD_EVENT_UNMAP`, userfaultfd(2)), and the thread that unmaps waits until our thread has
//! read the event. It may hold an allocator's lock, so our thread allocates nothing and waits for no thread that might.
//! Memory that is not mapped again yet is looked for at each post.

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

/// Whether something was unmapped, or is about to be: posts look at nothing else.
static IS_COMING: AtomicBool = AtomicBool::new(false);
/// Events that were read or are about to be, and events that were noted.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static NOTED: AtomicU64 = AtomicU64::new(0);
/// Events noted when all regions were last asked.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Memory that was unmapped and is not adopted again. Nothing is allocated under its lock.
static UNMAPPED: Mutex<Ranges> = Mutex::new(Ranges::new());

/// The watch over adopted memory, and its thread.
pub(super) struct Unmapping(Arc<Userfault>);

impl Unmapping {
    /// Begins the watch. Fails without such a userfaultfd or a thread, or with a filter of system calls, which might
    /// end the program for a call of the thread.
    pub(super) fn begin(lent: impl FnOnce() -> Option<OwnedFd>) -> io::Result<Self> {
        if userfault::is_filtered() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let events = Arc::new(Userfault::of_events(lent)?);
        let read = Arc::clone(&events);
        thread::lasting(move || read_events(&read))?;
        Ok(Self(events))
    }

    /// Watches a range: from here on it is noticed when some of it is unmapped. No access waits: no page is protected.
    /// If the program watches its memory itself, nothing is noticed.
    pub(super) fn watch(&self, range: Range) {
        let _ = self.0.watch(range, Watch::Writes);
    }

    pub(super) fn unwatch(&self, range: Range) {
        self.0.unwatch(range);
    }

    /// Closes the watch in a child, which has neither the memory nor the thread.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

/// Notes what is unmapped, as long as the process lasts.
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

/// Gives the thread descriptors of its own: programs close descriptors that they do not know, and another file may get
/// the number. The thread does not keep the program's descriptors open.
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
        // Waiting in the usual way may allocate.
        match UNMAPPED.try_lock() {
            Some(unmapped) => break unmapped,
            None => yield_now(),
        }
    };
    if !unmapped.add(range) {
        // Too many stretches: all between the first and the last may be unmapped, and is looked at.
        let all = unmapped.all();
        if let (Some(first), Some(last)) = (all.first(), all.last()) {
            let start = first.start.min(range.start);
            let end = last.end.max(range.end);
            unmapped.add(Range { start, end });
        }
    }
}

/// Adopts memory that was mapped again where a region has adopted memory. Called before a work request is posted.
#[inline]
pub(crate) fn adopt_what_came() {
    if IS_COMING.load(Ordering::Relaxed) {
        look();
    }
}

/// Ends the watch in a child, which has neither the memory nor the thread that would note more.
pub(super) fn end_in_child() {
    IS_COMING.store(false, Ordering::SeqCst);
}

/// Whether the next post looks for unmapped memory.
#[cfg(test)]
pub(super) fn is_coming() -> bool {
    IS_COMING.load(Ordering::SeqCst)
}

#[cold]
fn look() {
    // A program that closes descriptors that it does not know adopts nothing any more.
    let Some(tools) = tools_if_open().filter(|tools| tools.is_whole()) else {
        return IS_COMING.store(false, Ordering::SeqCst);
    };
    let _held = REGISTERING.lock();
    let begun = BEGUN.load(Ordering::SeqCst);
    while NOTED.load(Ordering::SeqCst) < begun {
        yield_now();
    }
    // There may be many regions, so they are asked once for each event. After that, one system call for each stretch
    // tells whether something is there by now.
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
        // An event that came meanwhile may have set the flag before it was cleared here.
        if BEGUN.load(Ordering::SeqCst) != begun {
            IS_COMING.store(true, Ordering::SeqCst);
        }
    }
}

/// Returns the stretches that are unmapped.
fn stretches() -> Vec<Range> {
    let count = UNMAPPED.lock().all().len();
    let mut stretches = Vec::with_capacity(count);
    // A stretch that came since was announced, too, and is looked for at the next post.
    stretches.extend(UNMAPPED.lock().all().iter().take(count));
    stretches
}

fn is_mapped(tools: &Tools, range: Range) -> bool {
    let next = tools.places.at_or_behind(range.start);
    next.is_ok_and(|place| place.range.overlaps(range))
}

/// Returns the parts of unmapped memory that are to be adopted now. Parts that no region has are forgotten.
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

/// Returns the parts of a range that can be adopted. Parts that are adopted already are forgotten.
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
            // It does not matter here whether a region has some of it by address, as it does elsewhere: nothing goes on
            // in memory that came since the last post.
            parts.push(part);
        }
    }
    parts
}

/// Adopts the parts. What cannot be adopted now is tried again at the next post.
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
        // With too many ranges a hole cannot be made in one: it stays, and is looked at again.
        UNMAPPED.lock().remove(range);
    }
}
