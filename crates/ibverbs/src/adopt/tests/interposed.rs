//! `madvise`, `munmap` and `mremap` on adopted memory do what they do on private memory.

use core::ffi::c_void;

use super::*;
use calls::{vrdma_memory_madvise, vrdma_memory_mremap, vrdma_memory_munmap};

/// Returns eight pages of sixes; where adoption is possible, those in the middle are adopted.
fn half_adopted() -> Field {
    let field = Field::new(8);
    field.fill(6);
    let middle = Range::of(field.start() + 2 * PAGE, 4 * PAGE);
    let adopted = registering().adopt(middle.start as u64, middle.size() as u64);
    assert_eq!(adopted, usual());
    field
}

fn pointer(at: usize) -> *mut c_void {
    at as *mut c_void
}

#[test]
fn what_is_discarded_is_zero() {
    for advice in [libc::MADV_DONTNEED, libc::MADV_FREE] {
        let field = half_adopted();
        let range = Range::of(field.start() + PAGE, 4 * PAGE);
        // SAFETY: memory of the test.
        let outcome = unsafe { vrdma_memory_madvise(pointer(range.start), range.size(), advice) };
        assert_eq!(outcome, 0);
        let adopted_part = if is_full() { 2..5 } else { 0..0 };
        for page in adopted_part {
            assert!(field.page(page) == [0; PAGE], "page {page}");
        }
        for page in [0, 5, 6, 7] {
            assert!(field.page(page) == [6; PAGE], "page {page}");
        }
    }
}

#[test]
fn a_hole_is_told_of_behind_what_was_done() {
    let field = half_adopted();
    field.note_holes();
    // SAFETY: memory of the test.
    unsafe {
        assert_eq!(
            vrdma_memory_munmap(pointer(field.start() + 6 * PAGE), PAGE),
            0
        );
        let (at, length) = (pointer(field.start() + 3 * PAGE), 5 * PAGE);
        assert_eq!(vrdma_memory_madvise(at, length, libc::MADV_DONTNEED), -1);
    }
    assert_eq!(crate::errno::Errno::last().0, libc::ENOMEM);
    assert!(field.page(3) == [0; PAGE]);
    assert!(field.page(2) == [6; PAGE]);
}

#[test]
fn a_program_cannot_have_children_share_it() {
    let field = half_adopted();
    let range = field.range();
    // SAFETY: memory of the test.
    let outcome =
        unsafe { vrdma_memory_madvise(pointer(range.start), range.size(), libc::MADV_DOFORK) };
    assert_eq!(outcome, 0);
    children::assert_separate(&field, 6);
}

#[test]
fn unmapped_memory_is_given_back() {
    let field = half_adopted();
    field.note_holes();
    let at = field.start() + 3 * PAGE;
    // SAFETY: memory of the test.
    assert_eq!(unsafe { vrdma_memory_munmap(pointer(at), PAGE) }, 0);
    assert_eq!(field.in_file(at), 0);
    let mut state = STATE.lock();
    state.forget_all_gone(tools(|| None).unwrap());
    let gone = Range::of(at, PAGE);
    assert!(!state.ranges.all().iter().any(|range| range.overlaps(gone)));
}

#[test]
fn memory_that_was_unmapped_unseen_is_forgotten_and_given_back() {
    let field = half_adopted();
    field.note_holes();
    let at = field.start() + 3 * PAGE;
    // SAFETY: memory of the test.
    let failed = unsafe { libc::syscall(libc::SYS_munmap, at, PAGE) };
    assert_eq!(failed, 0);
    let mut state = STATE.lock();
    state.forget_all_gone(tools(|| None).unwrap());
    drop(state);
    assert_eq!(field.in_file(at), 0);
}

#[test]
fn moved_memory_keeps_its_contents_and_grows_by_zeros() {
    let field = half_adopted();
    field.note_holes();
    let (at, length) = (field.start() + 2 * PAGE, 3 * PAGE);
    let (flags, nowhere) = (libc::MREMAP_MAYMOVE, core::ptr::null_mut());
    // SAFETY: memory of the test.
    let moved = unsafe { vrdma_memory_mremap(pointer(at), length, 2 * length, flags, nowhere) };
    assert_ne!(moved, libc::MAP_FAILED);
    // SAFETY: as large as was asked for.
    let bytes = unsafe { core::slice::from_raw_parts(moved.cast::<u8>(), 2 * length) };
    assert!(bytes[..length].iter().all(|byte| *byte == 6));
    assert!(bytes[length..].iter().all(|byte| *byte == 0));
    // SAFETY: nobody uses it any more.
    unsafe { vrdma_memory_munmap(moved, 2 * length) };
}

/// The program's own system call has moved the memory: its pages are those of another address, and stay.
#[test]
fn memory_that_was_moved_unseen_keeps_its_contents() {
    if !is_full() {
        return assert_eq!(usual(), Adoption::Threads);
    }
    let field = half_adopted();
    field.note_holes();
    let (at, length) = (field.start() + 2 * PAGE, 2 * PAGE);
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let elsewhere = Field::new(2);
    let to = elsewhere.start();
    // SAFETY: memory of the test.
    let moved = unsafe { libc::syscall(libc::SYS_mremap, at, length, length, flags, to) };
    assert_eq!(moved as usize, to);
    STATE.lock().forget_all_gone(tools(|| None).unwrap());
    assert!(elsewhere.is_filled(6));
    // New memory at the old address must not become the same pages.
    // SAFETY: a hole by now.
    let mapped = unsafe { kernel::map_private(at, length, 3, libc::MAP_FIXED_NOREPLACE) };
    assert_eq!(mapped.unwrap(), at);
    assert_eq!(
        registering().adopt(at as u64, length as u64),
        Adoption::Pinned
    );
    assert!(elsewhere.is_filled(6));
}
