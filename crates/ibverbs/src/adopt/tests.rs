//! Adoption in this process: what it does to memory that others use meanwhile, and what it leaves alone.

mod children;
mod field;
mod interposed;
mod refusals;
mod returning;
mod stress;

use super::*;
use field::Field;

/// Begins a registration, as in a program that adopts.
fn registering() -> Registering<'static> {
    Registering {
        _held: REGISTERING.lock(),
        daemon: None,
    }
}

/// Whether programs of several threads adopt here: it takes privilege or `/dev/userfaultfd`.
fn is_full() -> bool {
    tools(|| None).expect("Linux 6.11").userfault.is_full()
}

/// Returns what adopting plain memory comes to in a program of several threads, as a test is one.
fn usual() -> Adoption {
    if is_full() {
        Adoption::Adopted
    } else {
        Adoption::Threads
    }
}

#[test]
fn whole_pages_go_into_the_file_with_their_contents() {
    let field = Field::new(8);
    field.fill(7);
    let (address, length) = (field.start() as u64 + 100, 5 * PAGE as u64);
    assert_eq!(registering().adopt(address, length), usual());
    let inner = Range::of(field.start() + PAGE, 4 * PAGE);
    assert_eq!(field.is_adopted(inner), is_full());
    assert!(!field.is_adopted(Range::of(field.start(), PAGE)));
    assert!(!field.is_adopted(Range::of(inner.end, PAGE)));
    assert!(field.is_filled(7));
    // The file has these bytes, too.
    field.fill(9);
    let expected = if is_full() { 9 } else { 0 };
    assert_eq!(field.in_file(inner.start), expected);
    let part = registering().file(address, length);
    assert_eq!(part.is_some(), is_full());
    if let Some(part) = part {
        assert_eq!(part.range.address, inner.start as u64);
        assert_eq!(part.range.length, inner.size() as u64, "but for its edges");
        let edges = registering().reached(address, length, Some(part.range), true);
        let of = |at| addresses::has(Range::of(at, 1));
        assert!(of(inner.start - 1) && of(inner.end));
        assert!(!of(inner.start) && !of(inner.end - 1));
        drop(edges);
        assert!(!of(inner.start - 1));
    }
    let whole = registering().file(inner.start as u64 + 1, 4 * PAGE as u64 - 2);
    assert_eq!(whole.is_some(), is_full());
    if let Some(whole) = whole {
        assert_eq!(whole.range.offset, inner.start as u64);
        assert_eq!(whole.range.length, inner.size() as u64);
    }
}

#[test]
fn pages_that_never_were_and_large_ranges_are_adopted() {
    let field = Field::new(3 * HUGE / PAGE);
    field.fill_page(1, 3);
    field.fill_page(HUGE / PAGE, 4);
    let range = field.range();
    let (address, length) = (range.start as u64, range.size() as u64);
    assert_eq!(registering().adopt(address, length), usual());
    assert_eq!(field.is_adopted(range), is_full());
    for page in 0..range.size() / PAGE {
        let expected = match page {
            1 => 3,
            page if page == HUGE / PAGE => 4,
            _ => 0,
        };
        assert!(field.page(page) == [expected; PAGE], "page {page}");
    }
    assert_eq!(registering().adopt(address, length), usual());
}
