//! `fork` with adopted memory.

use super::*;

/// Runs `work` in a child; it must not allocate. Returns the child's answer.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child makes system calls and touches memory only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_well = work();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: a place for the answer.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    waited == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// Checks that a child has a copy, and that both write their own.
pub(super) fn assert_separate(field: &Field, filled: u8) {
    let mut ends = [0; 2];
    // SAFETY: a place for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: the child makes system calls and touches memory only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut byte = 0u8;
        // SAFETY: room for one byte; ends the child at once.
        unsafe {
            libc::close(ends[1]);
            libc::read(ends[0], (&raw mut byte).cast(), 1);
        }
        // Reads after the parent has written.
        let is_well = byte == 1 && field.is_filled(filled);
        field.fill(99);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    field.fill(55);
    let mut status = 1;
    // SAFETY: one byte, and a place for the answer.
    unsafe {
        assert_eq!(libc::write(ends[1], [1u8].as_ptr().cast(), 1), 1);
        libc::waitpid(child, &raw mut status, 0);
        let _ = ends.map(|end| libc::close(end));
    }
    assert_eq!(status, 0, "the child saw something else");
    assert!(field.is_filled(55), "the child wrote into its parent");
}

fn adopted(pages: usize, byte: u8) -> Field {
    let field = Field::new(pages);
    field.fill(byte);
    let range = field.range();
    let outcome = registering().adopt(range.start as u64, range.size() as u64);
    assert_eq!(outcome, usual());
    field
}

#[test]
fn a_child_has_a_copy_of_its_own() {
    assert_separate(&adopted(20, 3), 3);
    assert_separate(&adopted(2 * HUGE / PAGE + 3, 4), 4);
}

#[test]
fn a_child_of_a_child_has_one_too() {
    let field = adopted(4, 8);
    assert!(in_child(|| {
        field.fill_page(0, 9);
        let grandchild = || field.page(0) == [9; PAGE] && field.page(1) == [8; PAGE];
        in_child(grandchild)
    }));
    assert!(field.page(0) == [8; PAGE]);
}

#[test]
fn a_child_does_not_adopt_and_its_calls_are_libc_s() {
    let field = adopted(4, 8);
    assert!(in_child(|| {
        let (at, length) = (field.start() as *mut _, 2 * PAGE);
        // SAFETY: memory of the test.
        let discarded =
            unsafe { calls::vrdma_memory_madvise(at, length, libc::MADV_DONTNEED) } == 0;
        let is_child = forking::is_child() || !is_full();
        discarded && is_child && field.page(0) == [0; PAGE] && field.page(3) == [8; PAGE]
    }));
    assert!(field.is_filled(8));
}

#[test]
fn memory_that_is_gone_is_no_memory_of_a_child() {
    let field = adopted(4, 8);
    let hole = field.start() + PAGE;
    field.note_holes();
    // SAFETY: memory of the test.
    let failed = unsafe { libc::syscall(libc::SYS_munmap, hole, PAGE) };
    assert_eq!(failed, 0);
    assert!(in_child(|| {
        // SAFETY: asks whether something is mapped there.
        let mapped = unsafe { libc::madvise(hole as *mut _, PAGE, libc::MADV_NORMAL) };
        mapped == -1 && field.page(2) == [8; PAGE]
    }));
}

#[test]
fn a_child_looks_for_nothing_that_its_parent_has_unmapped() {
    let field = adopted(4, 8);
    let (start, size) = (field.start(), field.range().size());
    if let Some(part) = registering().file(start as u64, size as u64) {
        part.watch();
    }
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: memory of the test.
    unsafe { kernel::map_private(start, size, rights, libc::MAP_FIXED) }.expect("room");
    assert!(in_child(|| {
        let is_quiet = !unmapped::is_coming();
        unmapped::adopt_what_came();
        is_quiet
    }));
}
