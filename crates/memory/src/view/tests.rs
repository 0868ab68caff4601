use crate::{CopyFault, Fault, Memory, PAGE, Protection, Region, Right, SharedPages, Space, Spot};

const BUS: Region = Region::Bus;

fn space(maps: &[(u64, u64, Protection)]) -> Space {
    let space = Space::new();
    for &(page, pages, protection) in maps {
        let memory = SharedPages::new(pages as usize).unwrap();
        let fd = memory.fd().try_clone_to_owned().unwrap();
        space
            .map(page * PAGE, pages * PAGE, protection, fd, 0)
            .unwrap();
    }
    space
}

#[test]
fn accesses_cross_the_borders_of_maps_but_no_gap() {
    let space = space(&[(1, 1, Protection::BOTH), (2, 2, Protection::BOTH)]);
    let view = space.view();
    let data: Vec<u8> = (0..=255).cycle().take(2 * PAGE as usize).collect();
    view.write(PAGE + 100, &data).unwrap();
    let mut out = vec![0; data.len()];
    view.read(PAGE + 100, &mut out).unwrap();
    assert_eq!(out, data);
    assert_eq!(view.check(PAGE, 3 * PAGE, Right::Write), Ok(()));
    assert_eq!(
        view.check(PAGE, 3 * PAGE + 1, Right::Write),
        Err(Fault::Gone)
    );
    assert_eq!(view.check(PAGE - 1, 2, Right::Read), Err(Fault::Gone));
    assert_eq!(view.check(77, 0, Right::Read), Ok(()), "nothing is touched");
    assert_eq!(
        view.check(u64::MAX, u64::MAX, Right::Read),
        Err(Fault::Gone)
    );
    assert_eq!(view.write(3 * PAGE, &data), Err(Fault::Gone));
    assert_eq!(
        view.load_u32_acquire(3 * PAGE),
        Ok(0x0302_0100),
        "moved before the fault"
    );
}

#[test]
fn read_only_maps_are_never_written() {
    let space = space(&[(1, 1, Protection::READ), (2, 1, Protection::BOTH)]);
    let view = space.view();
    assert_eq!(view.write(PAGE, &[1]), Err(Fault::Gone));
    assert_eq!(view.store_u32_release(PAGE, 1), Err(Fault::Gone));
    assert_eq!(view.store_u64_release(PAGE, 1), Err(Fault::Gone));
    assert_eq!(
        view.fetch_update(&BUS, PAGE, &|old| old + 1),
        Err(Fault::Gone)
    );
    assert_eq!(view.check(PAGE, 1, Right::Write), Err(Fault::Gone));
    let copied = Memory::copy(
        &view,
        Spot::new(&BUS, PAGE),
        &view,
        Spot::new(&BUS, 2 * PAGE),
        8,
    );
    assert_eq!(copied, Err(CopyFault::Destination));
    assert_eq!(view.load_u64_acquire(PAGE), Ok(0));
}

#[test]
fn write_only_maps_are_never_read() {
    let space = space(&[(
        1,
        1,
        Protection {
            read: false,
            write: true,
        },
    )]);
    let view = space.view();
    view.write(PAGE, &[1; 8]).unwrap();
    assert_eq!(view.read(PAGE, &mut [0]), Err(Fault::Gone));
    assert_eq!(view.load_u32_acquire(PAGE), Err(Fault::Gone));
    assert_eq!(view.fetch_update(&BUS, PAGE, &|old| old), Err(Fault::Gone));
}

#[test]
fn words_are_little_endian_and_aligned() {
    let space = space(&[(1, 1, Protection::BOTH)]);
    let view = space.view();
    view.store_u64_release(PAGE, 0x0807_0605_0403_0201).unwrap();
    let mut bytes = [0; 8];
    view.read(PAGE, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(view.load_u32_acquire(PAGE + 4), Ok(0x0807_0605));
    for askew in [PAGE + 1, PAGE + 2] {
        assert_eq!(view.load_u32_acquire(askew), Err(Fault::Gone));
        assert_eq!(view.store_u32_release(askew, 0), Err(Fault::Gone));
    }
    assert_eq!(view.load_u64_acquire(PAGE + 4), Err(Fault::Gone));
    assert_eq!(view.store_u64_release(PAGE + 4, 0), Err(Fault::Gone));
}

#[test]
fn updates_are_atomic_between_threads() {
    let space = space(&[(1, 1, Protection::BOTH)]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let view = space.view();
                for _ in 0..5000 {
                    view.fetch_update(&BUS, PAGE + 8, &|old| old + 3).unwrap();
                }
            });
        }
    });
    assert_eq!(
        space.view().fetch_update(&BUS, PAGE + 8, &|old| old),
        Ok(30_000)
    );
    assert_eq!(
        space.view().fetch_update(&BUS, PAGE + 4, &|old| old),
        Err(Fault::Gone)
    );
}

#[test]
fn copies_between_guests_name_the_side_that_failed() {
    let (from, to) = (
        space(&[(1, 2, Protection::BOTH)]),
        space(&[(5, 1, Protection::BOTH)]),
    );
    let (from, to) = (from.view(), to.view());
    from.write(PAGE, &[7; 2 * PAGE as usize]).unwrap();
    for copy in [Memory::copy, Memory::copy_non_temporal] {
        to.write(5 * PAGE, &[0; PAGE as usize]).unwrap();
        let copy = |at, source, length| {
            copy(
                &to,
                Spot::new(&BUS, at),
                &from,
                Spot::new(&BUS, source),
                length,
            )
        };
        assert_eq!(copy(5 * PAGE + 8, PAGE + 4, PAGE - 8), Ok(()));
        assert_eq!(copy(5 * PAGE, 3 * PAGE, 1), Err(CopyFault::Source));
        assert_eq!(copy(5 * PAGE, 3 * PAGE - 4, 8), Err(CopyFault::Source));
        assert_eq!(copy(6 * PAGE, PAGE, 1), Err(CopyFault::Destination));
        assert_eq!(copy(5 * PAGE, u64::MAX, u64::MAX), Err(CopyFault::Source));
        assert_eq!(to.load_u64_acquire(6 * PAGE - 8), Ok(0x0707_0707_0707_0707));
        assert_eq!(to.load_u32_acquire(5 * PAGE + 4), Ok(0));
    }
}

#[test]
fn an_overlapping_copy_that_wraps_faults() {
    let space = space(&[(1, 1, Protection::BOTH)]);
    let view = space.view();
    let copied = Memory::copy(
        &view,
        Spot::new(&BUS, u64::MAX - 1),
        &view,
        Spot::new(&BUS, u64::MAX - 3),
        100,
    );
    assert_eq!(copied, Err(CopyFault::Source));
}
