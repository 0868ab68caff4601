use std::sync::Arc;

use proptest::prelude::*;

use super::{Level, MAX_PAGES, PageError, PageFlaw, PageList, PageWalk};
use crate::{Fault, Memory, PAGE, Protection, Region, Right, SharedPages, Space};

const DIRECTORY: u64 = 0x10_0000;
const TABLES: u64 = 0x20_0000;
const DATA: u64 = 0x100_0000;
const READ_ONLY: u64 = 0x800_0000;

/// A guest with room for a directory, tables, 1100 data pages and one page that may not be written.
fn guest() -> Space {
    let space = Space::new();
    let maps = [
        (DIRECTORY, 1, Protection::BOTH),
        (TABLES, 8, Protection::BOTH),
        (DATA, 1100, Protection::BOTH),
        (READ_ONLY, 1, Protection::READ),
    ];
    for (iova, pages, protection) in maps {
        let memory = SharedPages::new(pages).unwrap();
        let fd = memory.fd().try_clone_to_owned().unwrap();
        space
            .map(iova, pages as u64 * PAGE, protection, fd, 0)
            .unwrap();
    }
    space
}

fn put(space: &Space, at: u64, index: usize, entry: u64) {
    space
        .view()
        .store_u64_release(at + index as u64 * 8, entry)
        .unwrap();
}

fn list(space: &Space, pages: &[u64]) {
    for (index, &page) in pages.iter().enumerate() {
        put(space, TABLES, index, page);
    }
    for table in 0..pages.len().div_ceil(512) {
        put(space, DIRECTORY, table, TABLES + table as u64 * PAGE);
    }
}

fn resolve(space: &Space, count: u32, right: Right) -> Result<PageList, PageError> {
    PageList::resolve(&space.view(), DIRECTORY, count, right)
}

fn flaw(level: Level, index: u32, address: u64, flaw: PageFlaw) -> PageError {
    PageError::Entry {
        level,
        index,
        address,
        flaw,
    }
}

#[test]
fn a_directory_of_three_tables_is_walked() {
    let space = guest();
    let pages: Vec<u64> = (0..1030).map(|page| DATA + (1029 - page) * PAGE).collect();
    list(&space, &pages);
    let resolved = resolve(&space, 1030, Right::Write).unwrap();
    assert_eq!(resolved.count(), 1030);
    assert_eq!(resolved.page(1029), Some(DATA));
    assert_eq!(resolved.page(512), Some(pages[512]));
    assert_eq!(resolved.page(1030), None);
}

#[test]
fn a_list_that_was_read_before_is_checked_again() {
    let space = guest();
    let pages = [DATA + PAGE, READ_ONLY];
    list(&space, &pages);
    let read = resolve(&space, 2, Right::Read).unwrap();
    let view = space.view();
    let again = |pages: &[u64], right| PageList::listed(&view, DIRECTORY, pages.to_vec(), right);
    let listed = again(read.pages(), Right::Read).unwrap();
    assert_eq!(listed.pages(), read.pages());
    assert_eq!(listed.directory(), DIRECTORY);
    let refused = |pages: &[u64]| again(pages, Right::Write).unwrap_err();
    assert_eq!(refused(&[]), PageError::Count(0));
    let read_only = flaw(Level::Page, 1, READ_ONLY, PageFlaw::Unmapped);
    assert_eq!(refused(&pages), read_only);
    let odd = flaw(Level::Page, 0, DATA + 8, PageFlaw::Unaligned);
    assert_eq!(refused(&[DATA + 8]), odd);
}

#[test]
fn the_failing_entry_is_named() {
    let space = guest();
    list(&space, &[DATA, DATA + PAGE]);
    let view = space.view();
    let walk = |at, count| PageList::resolve(&view, at, count, Right::Write).unwrap_err();
    assert_eq!(walk(DIRECTORY, 0), PageError::Count(0));
    assert_eq!(
        walk(DIRECTORY, MAX_PAGES + 1),
        PageError::Count(MAX_PAGES + 1)
    );
    assert_eq!(walk(0, 1), flaw(Level::Directory, 0, 0, PageFlaw::Zero));
    assert_eq!(
        walk(7, 1),
        flaw(Level::Directory, 0, 7, PageFlaw::Unaligned)
    );
    assert_eq!(
        walk(PAGE, 1),
        flaw(Level::Directory, 0, PAGE, PageFlaw::Unmapped)
    );
    assert_eq!(
        walk(DIRECTORY, 513),
        flaw(Level::Page, 2, 0, PageFlaw::Zero)
    );
    put(&space, TABLES, 1, DATA + 8);
    assert_eq!(
        walk(DIRECTORY, 2),
        flaw(Level::Page, 1, DATA + 8, PageFlaw::Unaligned)
    );
    put(&space, TABLES, 1, READ_ONLY);
    assert_eq!(
        walk(DIRECTORY, 2),
        flaw(Level::Page, 1, READ_ONLY, PageFlaw::Unmapped)
    );
    put(&space, DIRECTORY, 0, 1 << 60);
    assert_eq!(
        walk(DIRECTORY, 2),
        flaw(Level::Table, 0, 1 << 60, PageFlaw::Unmapped)
    );
}

#[test]
fn read_only_pages_can_be_listed_for_reading() {
    let space = guest();
    list(&space, &[READ_ONLY]);
    let pages = Region::Pages(Arc::new(resolve(&space, 1, Right::Read).unwrap()));
    let view = space.view();
    assert_eq!(Memory::read(&view, &pages, 0, &mut [0; 8]), Ok(()));
    assert_eq!(Memory::write(&view, &pages, 0, &[0; 8]), Err(Fault::Gone));
}

#[test]
fn a_list_does_not_outlive_its_maps() {
    let space = guest();
    list(&space, &[DATA]);
    let pages = Region::Pages(Arc::new(resolve(&space, 1, Right::Write).unwrap()));
    space.unmap(DATA, 1100 * PAGE).unwrap();
    assert_eq!(
        Memory::write(&space.view(), &pages, 0, &[1]),
        Err(Fault::Gone)
    );
}

#[test]
fn a_long_list_is_read_in_pieces() {
    let space = guest();
    let pages: Vec<_> = (0..1100).map(|page| DATA + page * PAGE).collect();
    list(&space, &pages);
    let view = space.view();
    let mut walk = PageWalk::begin(&view, DIRECTORY, 1100, Right::Write).unwrap();
    assert_eq!(walk.go_on(&view, 1), Ok(false));
    assert_eq!(walk.go_on(&view, 1), Ok(false));
    assert_eq!(walk.go_on(&view, 1), Ok(true));
    let read = walk.finish();
    assert!((0..1100).all(|page| read.page(page) == Some(pages[page as usize])));
}

/// The guest cannot change entries that were read; a page that was unmapped meanwhile is refused.
#[test]
fn a_piece_is_looked_up_when_it_is_read() {
    let space = guest();
    list(&space, &vec![DATA; 1100]);
    let mut walk = PageWalk::begin(&space.view(), DIRECTORY, 1100, Right::Write).unwrap();
    put(&space, DIRECTORY, 1, 0);
    assert_eq!(walk.go_on(&space.view(), 1), Ok(false));
    space.unmap(DATA, 1100 * PAGE).unwrap();
    assert_eq!(
        walk.go_on(&space.view(), 1),
        Err(flaw(Level::Page, 512, DATA, PageFlaw::Unmapped))
    );
}

#[test]
fn runs_join_adjacent_pages_and_end_with_the_list() {
    let space = guest();
    list(&space, &[DATA, DATA + PAGE, DATA + 5 * PAGE, DATA + PAGE]);
    let pages = resolve(&space, 4, Right::Write)
        .unwrap()
        .starting_at(0x7fff_1100);
    assert_eq!(pages.length(), 4 * PAGE - 0x100);
    assert_eq!(
        pages.run(0, u64::MAX),
        Some((DATA + 0x100, 2 * PAGE - 0x100))
    );
    assert_eq!(pages.run(0, 16), Some((DATA + 0x100, 16)));
    assert_eq!(
        pages.run(PAGE, PAGE),
        Some((DATA + PAGE + 0x100, PAGE - 0x100))
    );
    assert_eq!(
        pages.run(2 * PAGE - 0x100, PAGE),
        Some((DATA + 5 * PAGE, PAGE))
    );
    assert_eq!(
        pages.run(4 * PAGE - 0x101, 8),
        Some((DATA + 2 * PAGE - 1, 1))
    );
    assert_eq!(pages.run(4 * PAGE - 0x100, 8), None);
    assert_eq!(pages.run(u64::MAX, 8), None);
    assert_eq!(pages.bus(1), Some(DATA + 0x101));
}

proptest! {
    #[test]
    fn runs_agree_with_page_by_page(
        steps in prop::collection::vec(prop_oneof![3 => Just(1), 1 => 0u64..40], 1..60),
        start in 0u64..4096,
        offset in 0u64..(60 * 4096),
        length in 1u64..(60 * 4096),
    ) {
        let space = guest();
        let pages: Vec<u64> = steps
            .iter()
            .scan(0, |page, step| { *page = (*page + step) % 1100; Some(DATA + *page * PAGE) })
            .collect();
        list(&space, &pages);
        let resolved = resolve(&space, pages.len() as u32, Right::Write).unwrap().starting_at(start);
        let plain = |offset: u64| pages.get(((start + offset) / PAGE) as usize)
            .map(|page| page + (start + offset) % PAGE);
        let Some((bus, count)) = resolved.run(offset, length) else {
            prop_assert_eq!(plain(offset), None);
            return Ok(());
        };
        prop_assert!((1..=length).contains(&count));
        for at in [0, count / 2, count - 1] {
            prop_assert_eq!(plain(offset + at), Some(bus + at));
        }
        let behind = plain(offset + count);
        prop_assert!(count == length || behind != Some(bus + count), "the run is as long as can be");
    }
}
