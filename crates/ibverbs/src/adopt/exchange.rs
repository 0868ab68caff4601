//! The exchange of private pages for pages of the file, with the same bytes, while other threads use them.
//!
//! ```text
//!   program's range  ──MOVE──► taken ──copy──► side (the file at the same offset)
//!        │ watched: who touches it now waits                │
//!        └◄──────────── the file is mapped here ◄───────────┘ then all are woken
//! ```
//!
//! The thread that does it must not touch the range, nor may it allocate: a lock that it waits for might be held by a
//! thread that waits for it ([`super::thread`]).

use std::io;
use std::os::fd::AsRawFd;

use super::kernel::{self, Range};
use super::tools::Tools;
use super::userfault::Watch;
use super::{HUGE, PAGE};
use crate::errno::Errno;

/// Lowest of two bits of a pagemap entry: the page was swapped out. The bit above: it is in memory.
const IS_THERE: u32 = 62;

/// Exchanges the pages of a range that lies in one huge page's place. If it fails, nothing has changed; `EBUSY`: a page
/// is pinned.
pub(super) fn exchange(tools: &Tools, range: Range) -> Result<(), Errno> {
    once(tools, range).or_else(|error| {
        if error.raw_os_error() != Some(libc::EBUSY) {
            return Err(error);
        }
        // Pages that a child shares are the parent's alone once they were written.
        // SAFETY: changes no contents.
        unsafe { kernel::advise(range, libc::MADV_POPULATE_WRITE) }?;
        once(tools, range)
    })?;
    Ok(())
}

fn once(tools: &Tools, range: Range) -> io::Result<()> {
    let beside = Range::of(tools.side + range.start % HUGE, range.size());
    let exchanged = prepare(tools, beside, range).and_then(|()| swap(tools, beside, range));
    tools.clear_side();
    exchanged
}

fn swap(tools: &Tools, beside: Range, range: Range) -> io::Result<()> {
    let taken = Range::of(tools.taken + range.start % HUGE, range.size());
    let userfault = &tools.userfault;
    userfault.watch(taken, Watch::Missing)?;
    // It fails where the program watches its memory itself, and that watch must go on.
    userfault
        .watch(range, Watch::Missing)
        .inspect_err(|_| userfault.unwatch(taken))?;
    let moved = userfault.take(taken.start, range);
    // This thread reads the place from here on, and must not wait for itself.
    userfault.unwatch(taken);
    let shown = moved.and_then(|()| show(tools, taken, beside, range));
    match &shown {
        // A new mapping by itself wakes no thread.
        Ok(()) => userfault.wake(range),
        Err(_) => userfault.unwatch(range),
    }
    // SAFETY: the memory is this thread's alone; its contents are in the file, or went back.
    let emptied = unsafe { kernel::advise(taken, libc::MADV_DONTNEED) };
    debug_assert!(emptied.is_ok(), "plain memory of ours");
    shown
}

/// Does all that takes long, before any thread has to wait.
fn prepare(tools: &Tools, beside: Range, range: Range) -> io::Result<()> {
    let file = tools.descriptor();
    tools.clear(range)?;
    // SAFETY: a place that is only used here.
    unsafe { kernel::map_file(beside.start, beside.size(), file, range.start)? };
    if range.size() == HUGE {
        // At least one page must be there. If no huge page can be made, small pages come.
        // SAFETY: just mapped, and not yet shown to anybody.
        unsafe { (beside.start as *mut u8).write_volatile(0) };
        // SAFETY: changes no contents.
        let _ = unsafe { kernel::advise(beside, libc::MADV_COLLAPSE) };
    }
    // SAFETY: changes no contents.
    unsafe { kernel::advise(beside, libc::MADV_POPULATE_WRITE) }
}

/// Copies the bytes, and maps the file where the program expects them. On failure the range has its own pages again.
fn show(tools: &Tools, taken: Range, beside: Range, range: Range) -> io::Result<()> {
    copy(tools, taken, beside);
    // SAFETY: the file has what was there.
    let mapped =
        unsafe { kernel::map_file(range.start, range.size(), tools.descriptor(), range.start) };
    mapped.inspect_err(|_| {
        let back = tools.userfault.take(range.start, taken);
        back.expect("pages that were moved can be moved");
    })
}

/// Copies all pages that are there; the others are zero on both sides.
fn copy(tools: &Tools, taken: Range, beside: Range) {
    let mut entries = [0u64; HUGE / PAGE];
    let pages = taken.size() / PAGE;
    let known = entries_of(tools, taken, &mut entries[..pages]);
    for (index, entry) in entries[..pages].iter().enumerate() {
        if !known || entry >> IS_THERE != 0 {
            let from = (taken.start + index * PAGE) as *const u8;
            let to = (beside.start + index * PAGE) as *mut u8;
            // SAFETY: both are mapped, as large, and used by this thread alone.
            unsafe { core::ptr::copy_nonoverlapping(from, to, PAGE) };
        }
    }
}

/// Reads the pagemap's entries of a range; false if they cannot be read.
fn entries_of(tools: &Tools, range: Range, entries: &mut [u64]) -> bool {
    let bytes = size_of_val(entries);
    let at = range.start / PAGE * size_of::<u64>();
    let (file, to) = (tools.pagemap.as_raw_fd(), entries.as_mut_ptr().cast());
    // SAFETY: the slice has as many bytes.
    let read = unsafe { libc::pread(file, to, bytes, at as libc::off_t) };
    usize::try_from(read) == Ok(bytes)
}

/// Makes adopted pages private again, with the bytes that they have. A thread that writes them meanwhile waits.
///
/// A writer that pinned a page of the file before does not wait: the daemon, a device, another process in the middle of
/// a `process_vm_writev`. What it writes after the copy is lost. The kernel does not tell whether a page of a file is
/// pinned, as `UFFDIO_MOVE` does for private pages. So this is called only before system calls that need private
/// memory, and never when a registration ends.
pub(super) fn undo(tools: &Tools, range: Range) -> io::Result<()> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses the place.
    let fresh = unsafe { kernel::map_private(0, range.size(), rights, 0) }?;
    let userfault = &tools.userfault;
    // Only one userfaultfd may watch the memory.
    if let Some(unmapping) = &tools.unmapping {
        unmapping.unwatch(range);
    }
    userfault.watch(range, Watch::Writes)?;
    let moved = userfault.protect(range).and_then(|()| {
        let (from, to) = (range.start as *const u8, fresh as *mut u8);
        // SAFETY: both are mapped and as large; nobody writes the range, and nobody knows the fresh memory.
        unsafe { core::ptr::copy_nonoverlapping(from, to, range.size()) };
        // SAFETY: the fresh memory has what is in the range.
        unsafe { kernel::move_over(fresh, range) }
    });
    match &moved {
        Ok(()) => {
            userfault.wake(range);
            // If this fails, the file keeps its memory until these addresses are adopted again.
            let _ = kernel::punch(tools.descriptor(), range);
        }
        Err(_) => userfault.unwatch(range),
    }
    moved
}
