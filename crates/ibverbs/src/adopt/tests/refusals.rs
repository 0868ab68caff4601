//! Memory that is left alone, each with its reason.

use super::*;

fn adopt(range: Range) -> Adoption {
    registering().adopt(range.start as u64, range.size() as u64)
}

#[test]
fn what_has_no_whole_page_is_left_alone() {
    let field = Field::new(2);
    let inside = field.start() as u64 + 1;
    let adopted = registering().adopt(inside, 2 * PAGE as u64 - 2);
    assert_eq!(adopted, Adoption::NoWholePage);
    assert_eq!(registering().adopt(inside, 0), Adoption::NoWholePage);
    assert_eq!(registering().adopt(u64::MAX - 5, 9), Adoption::NotPlain);
}

#[test]
fn only_plain_memory_is_adopted() {
    let field = Field::new(6);
    let range = field.range();
    let part = |page: usize, pages: usize| Range::of(range.start + page * PAGE, pages * PAGE);
    let protect = |part: Range, rights| {
        // SAFETY: memory of the test.
        let failed = unsafe { libc::mprotect(part.start as *mut _, part.size(), rights) };
        assert_eq!(failed, 0);
    };
    protect(part(2, 1), libc::PROT_READ);
    assert_eq!(adopt(range), Adoption::NotPlain);
    assert!(!field.is_adopted(part(0, 2)), "nothing was begun");
    protect(
        part(2, 1),
        libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
    );
    assert_eq!(adopt(range), Adoption::NotPlain);
    let file = tempfile::tempfile().unwrap();
    file.set_len(PAGE as u64).unwrap();
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
    // SAFETY: memory of the test.
    let mapped = unsafe {
        use std::os::fd::AsRawFd;
        let at = part(2, 1).start as *mut _;
        libc::mmap(
            at,
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(mapped, libc::MAP_FAILED);
    assert_eq!(adopt(range), Adoption::NotPlain, "of a file");
    field.note_holes();
    // SAFETY: memory of the test.
    unsafe { libc::munmap(part(2, 1).start as *mut _, PAGE) };
    assert_eq!(adopt(range), Adoption::NotPlain, "a hole");
    assert_eq!(adopt(part(3, 3)), usual());
}

#[test]
fn stacks_are_left_alone() {
    let here = std::hint::black_box([0u8; 3 * PAGE]);
    let start = (here.as_ptr() as usize).next_multiple_of(PAGE);
    assert_eq!(adopt(Range::of(start, PAGE)), Adoption::Stack);
}

#[test]
fn pages_that_another_region_reaches_by_address_are_left_alone() {
    let field = Field::new(8);
    let at = field.start() as u64 + 3 * PAGE as u64 + 100;
    let known = registering().reached(at, 8, None, false);
    assert_eq!(adopt(field.range()), Adoption::ReachedByAddress);
    let before = Range::of(field.start(), 3 * PAGE);
    assert_eq!(adopt(before), usual());
    drop(known);
    assert_eq!(adopt(field.range()), usual());
}

#[test]
fn locked_pages_are_left_alone() {
    let field = Field::new(4);
    field.fill(5);
    let (at, size) = (field.start() as *mut _, field.range().size());
    // SAFETY: memory of the test.
    assert_eq!(unsafe { libc::mlock(at, size) }, 0);
    let expected = if is_full() {
        Adoption::Locked
    } else {
        Adoption::Threads
    };
    assert_eq!(adopt(field.range()), expected);
    assert!(field.is_filled(5) && !field.is_adopted(field.range()));
    // SAFETY: memory of the test.
    unsafe { libc::munlock(at, size) };
    assert_eq!(adopt(field.range()), usual());
}

#[test]
fn memory_that_the_program_watches_itself_is_left_alone() {
    let field = Field::new(4);
    field.fill(5);
    let own = userfault::Userfault::open(|| None).unwrap();
    own.watch(field.range(), userfault::Watch::Writes).unwrap();
    let expected = if is_full() {
        Adoption::Pinned
    } else {
        Adoption::Threads
    };
    assert_eq!(adopt(field.range()), expected);
    own.protect(field.range()).expect("it is still watched");
    own.unwatch(field.range());
    assert!(field.is_filled(5));
}

/// A pipe that pages were lent to holds references and no pins; a living child shares the pages until they are written.
#[test]
fn pages_that_a_child_shares_are_adopted_all_the_same() {
    let field = Field::new(4);
    field.fill(5);
    let mut ends = [0; 2];
    // SAFETY: a place for two descriptors; the child makes system calls and reads memory only.
    let child = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::fork()
    };
    if child == 0 {
        // SAFETY: waits for the end of the pipe, and ends the child.
        unsafe {
            libc::close(ends[1]);
            let mut byte = 0u8;
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            libc::_exit(i32::from(!field.is_filled(5)));
        }
    }
    assert_eq!(adopt(field.range()), usual());
    field.fill(6);
    let mut status = 1;
    // SAFETY: descriptors of this test, and a place for the answer.
    unsafe {
        let _ = ends.map(|end| libc::close(end));
        libc::waitpid(child, &raw mut status, 0);
    }
    assert_eq!(status, 0, "the child saw its own");
    assert!(field.is_filled(6));
}
