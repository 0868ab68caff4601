use std::os::fd::OwnedFd;

use super::{MAX_BYTES, MAX_MAPS, Space, UnmapError};
use crate::{Fault, MapError, PAGE, Protection, SharedPages};

fn file(pages: usize) -> OwnedFd {
    let pages = SharedPages::new(pages).expect("memory for a test");
    pages
        .fd()
        .try_clone_to_owned()
        .expect("a descriptor for a test")
}

fn map(space: &Space, page: u64, pages: u64) -> Result<(), MapError> {
    let fd = file(pages as usize);
    space.map(page * PAGE, pages * PAGE, Protection::BOTH, fd, 0)
}

fn unmap(space: &Space, page: u64, pages: u64) -> Result<u64, UnmapError> {
    let unmapped = space.unmap(page * PAGE, pages * PAGE);
    unmapped.map(|unmapped| unmapped.bytes())
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let space = Space::new();
    let both = Protection::BOTH;
    let none = Protection {
        read: false,
        write: false,
    };
    let top = u64::MAX - PAGE + 1;
    let cases = [
        (0, 0, both, 0, MapError::Empty),
        (1, PAGE, both, 0, MapError::Unaligned),
        (PAGE, PAGE + 8, both, 0, MapError::Unaligned),
        (PAGE, PAGE, both, 512, MapError::Unaligned),
        (top, PAGE, both, 0, MapError::Wraps),
        (PAGE, PAGE, both, top, MapError::Wraps),
        (PAGE, PAGE, none, 0, MapError::NoAccess),
        (
            PAGE,
            3 * PAGE,
            both,
            0,
            MapError::FileTooShort { length: 2 * PAGE },
        ),
        (
            PAGE,
            PAGE,
            both,
            2 * PAGE,
            MapError::FileTooShort { length: 2 * PAGE },
        ),
        (PAGE, MAX_BYTES + PAGE, both, 0, MapError::TooLarge),
    ];
    for (iova, size, protection, offset, error) in cases {
        assert_eq!(
            space.map(iova, size, protection, file(2), offset),
            Err(error)
        );
    }
}

#[test]
fn overlaps_are_refused_and_neighbours_are_not() {
    let space = Space::new();
    map(&space, 10, 2).unwrap();
    for (page, pages) in [(10, 2), (9, 2), (11, 1), (11, 5), (8, 10)] {
        assert_eq!(
            map(&space, page, pages),
            Err(MapError::Overlaps { iova: 10 * PAGE })
        );
    }
    map(&space, 12, 1).unwrap();
    map(&space, 8, 2).unwrap();
}

#[test]
fn maps_are_bounded() {
    let space = Space::new();
    for page in 0..MAX_MAPS as u64 {
        map(&space, page, 1).unwrap();
    }
    assert_eq!(map(&space, MAX_MAPS as u64, 1), Err(MapError::TooMany));
    space.unmap_all();
    map(&space, 0, 1).unwrap();
}

#[test]
fn unmap_removes_whole_maps_only() {
    let space = Space::new();
    for (page, pages) in [(1, 1), (2, 4), (8, 2)] {
        map(&space, page, pages).unwrap();
    }
    assert_eq!(
        unmap(&space, 3, 1),
        Err(UnmapError::Splits { iova: 2 * PAGE })
    );
    assert_eq!(
        unmap(&space, 1, 2),
        Err(UnmapError::Splits { iova: 2 * PAGE })
    );
    assert_eq!(
        unmap(&space, 3, 20),
        Err(UnmapError::Splits { iova: 2 * PAGE })
    );
    assert_eq!(space.generation(), 0);

    assert_eq!(unmap(&space, 6, 2), Ok(0));
    assert_eq!(space.generation(), 0, "nothing was there");
    assert_eq!(unmap(&space, 0, 7), Ok(5 * PAGE));
    assert_eq!(space.generation(), 1);
    assert_eq!(space.view().load_u32_acquire(2 * PAGE), Err(Fault::Gone));
    assert_eq!(space.view().load_u32_acquire(8 * PAGE), Ok(0));
    assert_eq!(space.unmap(0, u64::MAX).unwrap().bytes(), 2 * PAGE);
    assert_eq!(space.unmap(5, 0).unwrap().bytes(), 0);
}

#[test]
fn without_bus_mastering_everything_faults() {
    let space = Space::new();
    map(&space, 1, 1).unwrap();
    space.set_bus_master(false);
    assert_eq!(space.view().store_u32_release(PAGE, 1), Err(Fault::Gone));
    assert_eq!(space.view().read(PAGE, &mut [0]), Err(Fault::Gone));
    space.set_bus_master(true);
    assert_eq!(space.view().load_u32_acquire(PAGE), Ok(0));
}

#[test]
fn a_file_that_may_not_be_written_is_refused() {
    let fd = std::fs::File::open("/proc/self/exe").unwrap();
    let refused = Space::new().map(0, PAGE, Protection::BOTH, fd.into(), 0);
    assert_eq!(refused, Err(MapError::Refused(rustix::io::Errno::ACCESS)));
}

#[test]
fn a_thing_without_memory_is_refused() {
    let (fd, _other) = std::io::pipe().unwrap();
    let refused = Space::new().map(0, PAGE, Protection::READ, fd.into(), 0);
    assert!(matches!(refused, Err(MapError::Refused(_))), "{refused:?}");
}
