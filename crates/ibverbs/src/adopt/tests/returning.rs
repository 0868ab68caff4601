//! Memory that comes back at the addresses of a region.

use super::*;

/// Returns adopted memory that a region has, as long as the second value is kept.
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

const PLAIN: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Maps other memory in place of what is there, past the names that the library sees. A hole might be filled by another
/// test.
fn replace(range: Range, rights: i32) {
    // SAFETY: memory of the test.
    let mapped = unsafe { kernel::map_private(range.start, range.size(), rights, libc::MAP_FIXED) };
    assert_eq!(mapped.expect("room"), range.start);
}

#[test]
fn what_is_mapped_where_a_region_is_becomes_its_memory() {
    let (field, _reached) = registered(40);
    let middle = Range::of(field.start() + 3 * PAGE, 30 * PAGE);
    replace(middle, PLAIN);
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
        replace(middle, PLAIN);
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
    replace(field.range(), libc::PROT_NONE);
    unmapped::adopt_what_came();
    replace(second, PLAIN);
    unmapped::adopt_what_came();
    assert_eq!(field.is_adopted(second), is_full());
    replace(first, PLAIN);
    unmapped::adopt_what_came();
    assert_eq!(field.is_adopted(field.range()), is_full());
}

#[test]
fn what_no_region_has_any_more_is_left_alone() {
    let (field, reached) = registered(8);
    drop(reached);
    replace(field.range(), PLAIN);
    unmapped::adopt_what_came();
    assert!(!field.is_adopted(field.range()));
    field.fill(9);
    assert!(field.is_filled(9));
}
