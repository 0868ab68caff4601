use super::{Bitmap, DirtyRun};
use crate::{Memory, PAGE, Protection, Region, SharedPages, Space, Spot};

fn space(maps: &[(u64, u64)]) -> Space {
    let space = Space::new();
    for &(page, pages) in maps {
        let memory = SharedPages::new(pages as usize).unwrap();
        let fd = memory.fd().try_clone_to_owned().unwrap();
        space
            .map(page * PAGE, pages * PAGE, Protection::BOTH, fd, 0)
            .unwrap();
    }
    space
}

fn run(page: u64, pages: u64) -> DirtyRun {
    DirtyRun {
        iova: page * PAGE,
        pages,
    }
}

const ALL: std::ops::Range<u64> = 0..u64::MAX;

#[test]
fn every_kind_of_write_is_logged_once() {
    let space = space(&[(1, 8), (9, 8)]);
    let view = space.view();
    view.write(PAGE, &[1]).unwrap();
    drop(view);
    space.dirty_log().enable();

    let view = space.view();
    let bus = Region::Bus;
    view.write(2 * PAGE - 1, &[1, 2]).unwrap();
    view.store_u32_release(4 * PAGE, 1).unwrap();
    view.store_u64_release(6 * PAGE, 1).unwrap();
    view.fetch_update(&bus, 8 * PAGE, &|old| old + 1).unwrap();
    Memory::copy(
        &view,
        Spot::new(&bus, 9 * PAGE),
        &view,
        Spot::new(&bus, 12 * PAGE),
        PAGE + 1,
    )
    .unwrap();
    view.read(16 * PAGE, &mut [0; 8]).unwrap();
    drop(view);

    let log = space.dirty_log();
    assert_eq!(log.take(ALL), [run(1, 2), run(4, 1), run(6, 1), run(8, 3)]);
    assert_eq!(log.take(ALL), []);
}

#[test]
fn a_part_can_be_taken() {
    let space = space(&[(0, 100)]);
    space.dirty_log().enable();
    space.view().write(0, &[7; 100 * PAGE as usize]).unwrap();
    let log = space.dirty_log();
    assert_eq!(log.take(70 * PAGE - 1..90 * PAGE + 1), [run(70, 20)]);
    assert_eq!(log.take(ALL), [run(0, 70), run(90, 10)]);
}

#[test]
fn pages_are_counted_and_put_back() {
    let space = space(&[(1, 8), (9, 8)]);
    space.dirty_log().enable();
    let wrote = [7; 3 * PAGE as usize];
    space.view().write(8 * PAGE, &wrote).unwrap();
    let log = space.dirty_log();
    assert_eq!(log.pages(), 3);
    let taken = log.take(ALL);
    assert_eq!((log.pages(), &*taken), (0, &[run(8, 3)][..]));
    log.put_back(&[run(8, 2), run(100, 1)]);
    assert_eq!(log.take(ALL), [run(8, 2)]);
}

#[test]
fn disabling_forgets_and_later_maps_are_logged() {
    let space = space(&[(0, 1)]);
    space.dirty_log().enable();
    space.view().write(0, &[1]).unwrap();
    space.dirty_log().disable();
    assert_eq!(space.dirty_log().take(ALL), []);

    space.dirty_log().enable();
    assert_eq!(space.dirty_log().take(ALL), []);
    let memory = SharedPages::new(1).unwrap();
    let fd = memory.fd().try_clone_to_owned().unwrap();
    space.map(PAGE, PAGE, Protection::BOTH, fd, 0).unwrap();
    space.view().write(PAGE, &[1]).unwrap();
    assert_eq!(space.dirty_log().take(ALL), [run(1, 1)]);
}

#[test]
fn bits_are_found_across_words() {
    let bitmap = Bitmap::new(200);
    bitmap.mark(63 * PAGE as usize, 2 * PAGE as usize);
    bitmap.mark(127 * PAGE as usize, 66 * PAGE as usize);
    bitmap.mark(5, 0);
    let mut pages = Vec::new();
    bitmap.take(0..200, |page| pages.push(page));
    assert_eq!(
        pages,
        [63, 64].into_iter().chain(127..193).collect::<Vec<_>>()
    );
}
