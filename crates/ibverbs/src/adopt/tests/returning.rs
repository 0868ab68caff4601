//! Memory that comes back at the addresses of a region.

use super::*;

/// Adopted memory that a region has, as long as the second value is kept.
fn registered(pages: usize) -> (Field, Vec<Reached>) {
    let field = Field::new(pages);
    field.fill(5);
    let (address, length) = (field.start() as u64, field.range().size() as u64);
    let registering = registering();
    assert_eq!(registering.adopt(address, length), usual());
    let adopted = registering.file(address, length);
    let range = adopted.as_ref().map(|adopted| adopted.range);
    adopted.inspect(Adopted::watch);
    let reached = registering.reached(address, length, range, is_full());
    (field, reached)
}

/// As libc does it inside itself, without a name that is seen.
fn unmap(range: Range) {
    // SAFETY: memory of the test.
    let failed = unsafe { libc::syscall(libc::SYS_munmap, range.start, range.size()) };
    assert_eq!(failed, 0);
}

/// Other private memory at these addresses, which are free.
fn map(range: Range) {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel replaces nothing.
    let mapped = unsafe {
        kernel::map_private(range.start, range.size(), rights, libc::MAP_FIXED_NOREPLACE)
    };
    assert_eq!(mapped.expect("free addresses"), range.start);
}

#[test]
fn what_is_mapped_where_a_region_is_becomes_its_memory() {
    let (field, _reached) = registered(40);
    let middle = Range::of(field.start() + 3 * PAGE, 30 * PAGE);
    unmap(middle);
    map(middle);
    field.fill(6);
    unmapped::adopt_what_came();
    assert_eq!(field.is_adopted(field.range()), is_full());
    assert!(field.is_filled(6));
    if is_full() {
        assert_eq!(
            [3, 20, 32, 33].map(|page| field.in_file(field.start() + page * PAGE)),
            [6; 4]
        );
        // Untouched pages are zeros, and not what was there before.
        unmap(middle);
        map(middle);
        unmapped::adopt_what_came();
        assert_eq!(field.in_file(middle.start), 0);
        assert!(field.page(3) == [0; PAGE]);
    }
}

#[test]
fn what_comes_later_and_in_parts_is_waited_for() {
    let (field, _reached) = registered(8);
    let (first, second) = (
        Range::of(field.start(), 4 * PAGE),
        Range::of(field.start() + 4 * PAGE, 4 * PAGE),
    );
    unmap(field.range());
    unmapped::adopt_what_came();
    map(second);
    unmapped::adopt_what_came();
    assert_eq!(field.is_adopted(second), is_full());
    map(first);
    unmapped::adopt_what_came();
    assert_eq!(field.is_adopted(field.range()), is_full());
}

#[test]
fn what_no_region_has_any_more_is_left_alone() {
    let (field, reached) = registered(8);
    unmap(field.range());
    drop(reached);
    map(field.range());
    unmapped::adopt_what_came();
    assert!(!field.is_adopted(field.range()));
    field.fill(9);
    assert!(field.is_filled(9));
}
