//! Random maps, reads, writes and copies, compared with a plain vector.

use std::sync::Arc;

use proptest::prelude::*;
use vrdma_memory::{
    CopyFault, Fault, Memory, PAGE, PageList, Protection, Region, Right, SharedPages, Space, Spot,
    View,
};

/// Pages of the model's bus.
const PAGES: usize = 24;
const END: u64 = PAGES as u64 * PAGE;

/// The expected state of the bus: bytes, and for every page whether it can be read and written.
struct Model {
    bytes: Vec<u8>,
    pages: Vec<Option<Protection>>,
}

impl Model {
    /// Number of bytes from `at` that can be accessed before the fault.
    fn reach(&self, at: u64, length: u64, right: Right) -> u64 {
        let allowed = |byte: &u64| {
            let page = self.pages.get((byte / PAGE) as usize).copied().flatten();
            page.is_some_and(|protection| protection.allows(right))
        };
        (at..at + length).take_while(allowed).count() as u64
    }

    fn slice(&self, at: u64, length: u64) -> &[u8] {
        &self.bytes[at as usize..][..length as usize]
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, length: u64, seed: u8 },
    Read { at: u64, length: u64 },
    Copy { to: u64, from: u64, length: u64 },
    Word { at: u64, value: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = 0..END;
    let length = prop_oneof![0u64..40, 0u64..3 * PAGE];
    let near = (0..END, -200i64..200).prop_map(|(at, by)| (at, at.saturating_add_signed(by)));
    let pair = prop_oneof![(at.clone(), at.clone()), near];
    let step = prop_oneof![
        (at.clone(), length.clone(), any::<u8>()).prop_map(|(at, length, seed)| Step::Write {
            at,
            length,
            seed
        }),
        (at.clone(), length.clone()).prop_map(|(at, length)| Step::Read { at, length }),
        (pair, length).prop_map(|((to, from), length)| Step::Copy { to, from, length }),
        (at, any::<u64>()).prop_map(|(at, value)| Step::Word { at, value }),
    ];
    prop::collection::vec(step, 1..40)
}

/// Map sizes and their protection: `None` is a gap.
fn layout() -> impl Strategy<Value = Vec<(u64, Option<Protection>)>> {
    let may = prop_oneof![
        1 => Just(None),
        1 => Just(Some(Protection::READ)),
        4 => Just(Some(Protection::BOTH)),
    ];
    prop::collection::vec((1u64..6, may), 1..10)
}

fn build(layout: &[(u64, Option<Protection>)]) -> (Space, Model) {
    let space = Space::new();
    let mut model = Model {
        bytes: vec![0; PAGES * PAGE as usize],
        pages: Vec::new(),
    };
    for &(pages, may) in layout {
        let room = (PAGES - model.pages.len()) as u64;
        let (iova, pages) = (model.pages.len() as u64 * PAGE, pages.min(room));
        if let (Some(protection), 1..) = (may, pages) {
            // One more page in front, so that the offset into the file matters.
            let memory = SharedPages::new(pages as usize + 1).unwrap();
            let fd = memory.fd().try_clone_to_owned().unwrap();
            space.map(iova, pages * PAGE, protection, fd, PAGE).unwrap();
        }
        model.pages.extend((0..pages).map(|_| may));
    }
    (space, model)
}

fn pattern(seed: u8, length: u64) -> Vec<u8> {
    (0..length)
        .map(|index| seed.wrapping_add(index as u8).wrapping_mul(31))
        .collect()
}

fn run(space: &Space, model: &mut Model, step: &Step) -> Result<(), TestCaseError> {
    let view = space.view();
    match *step {
        Step::Write { at, length, seed } => {
            let data = pattern(seed, length);
            let reach = model.reach(at, length, Right::Write);
            let answer = view.write(at, &data);
            prop_assert_eq!(answer.is_ok(), reach == length);
            model.bytes[at as usize..][..reach as usize].copy_from_slice(&data[..reach as usize]);
        }
        Step::Read { at, length } => {
            let mut out = vec![0; length as usize];
            let fits = model.reach(at, length, Right::Read) == length;
            prop_assert_eq!(view.read(at, &mut out).is_ok(), fits);
            prop_assert!(!fits || out == model.slice(at, length));
        }
        Step::Copy { to, from, length } => {
            let fits = model.reach(from, length, Right::Read) == length
                && model.reach(to, length, Right::Write) == length;
            if fits {
                let bus = Region::Bus;
                prop_assert_eq!(
                    Memory::copy(
                        &view,
                        Spot::new(&bus, to),
                        &view,
                        Spot::new(&bus, from),
                        length
                    ),
                    Ok(())
                );
                let source = from as usize..(from + length) as usize;
                model.bytes.copy_within(source, to as usize);
            }
        }
        Step::Word { at, value } => {
            let fits = at % 8 == 0 && model.reach(at, 8, Right::Write) == 8;
            let swapped = view.fetch_update(&Region::Bus, at, &|_| value);
            prop_assert_eq!(swapped.is_ok(), fits);
            if fits {
                prop_assert_eq!(&swapped.unwrap().to_le_bytes(), model.slice(at, 8));
                model.bytes[at as usize..][..8].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_bus_is_a_vector_with_holes(layout in layout(), steps in steps()) {
        let (space, mut model) = build(&layout);
        for step in &steps {
            run(&space, &mut model, step)?;
        }
        for page in (0..model.pages.len()).filter(|&page| model.pages[page].is_some()) {
            let mut out = [0; PAGE as usize];
            let at = page as u64 * PAGE;
            space.view().read(at, &mut out).unwrap();
            prop_assert!(out == model.slice(at, PAGE));
        }
    }

    #[test]
    fn copies_between_scattered_pages_move_the_same_bytes(
        source in Just((0..10u64).collect::<Vec<_>>()).prop_shuffle(),
        target in Just((0..10u64).collect::<Vec<_>>()).prop_shuffle(),
        from in 0u64..20_000,
        to in 0u64..20_000,
        length in 0u64..24_000,
        starts in (0u64..4096, 0u64..4096),
        non_temporal: bool,
    ) {
        let (a, b) = (Guest::new(&source, starts.0), Guest::new(&target, starts.1));
        let data = pattern(3, length);
        let room = |guest: &Guest, offset| offset + length <= guest.length;
        let written = Memory::write(&a.space.view(), &a.region, from, &data);
        prop_assert_eq!(written.is_ok(), length == 0 || room(&a, from));
        let copy = copier(non_temporal);
        let copied = copy(
            &b.space.view(), Spot::new(&b.region, to),
            &a.space.view(), Spot::new(&a.region, from), length,
        );
        let expected = match (length, room(&a, from), room(&b, to)) {
            (0, ..) | (_, true, true) => Ok(()),
            (_, true, false) => Err(CopyFault::Destination),
            (_, false, true) => Err(CopyFault::Source),
            (_, false, false) => copied,
        };
        prop_assert_eq!(copied, expected);
        if copied.is_ok() {
            let mut out = vec![0; length as usize];
            prop_assert_eq!(Memory::read(&b.space.view(), &b.region, to, &mut out), Ok(()));
            prop_assert_eq!(out, data);
        }
    }

    #[test]
    fn overlapping_copies_inside_a_list_are_moves(
        from in 0u64..9000, by in -5000i64..5000, length in 0u64..20_000, non_temporal: bool,
    ) {
        let to = from.saturating_add_signed(by);
        let guest = Guest::new(&[4, 1, 7, 2, 9, 3, 0, 8, 6, 5], 100);
        let view = guest.space.view();
        let mut model = pattern(9, guest.length);
        Memory::write(&view, &guest.region, 0, &model).unwrap();
        let copy = copier(non_temporal);
        let copied = copy(
            &view, Spot::new(&guest.region, to), &view, Spot::new(&guest.region, from), length,
        );
        prop_assert_eq!(copied, Ok(()));
        model.copy_within(from as usize..(from + length) as usize, to as usize);
        let mut out = vec![0; model.len()];
        prop_assert_eq!(Memory::read(&view, &guest.region, 0, &mut out), Ok::<(), Fault>(()));
        prop_assert!(out == model);
    }
}

/// Two ways to copy, which must do the same.
type Copier<'v> =
    fn(&View<'v>, Spot<'_, Region>, &View<'v>, Spot<'_, Region>, u64) -> Result<(), CopyFault>;

fn copier<'v>(non_temporal: bool) -> Copier<'v> {
    match non_temporal {
        true => Memory::copy_non_temporal,
        false => Memory::copy,
    }
}

/// A guest with one registration of scattered pages.
struct Guest {
    space: Space,
    region: Region,
    length: u64,
}

impl Guest {
    fn new(order: &[u64], start: u64) -> Self {
        const DIRECTORY: u64 = 0x10_0000;
        const TABLE: u64 = 0x10_1000;
        let space = Space::new();
        for (iova, pages) in [(PAGE, 4), (5 * PAGE, 6), (DIRECTORY, 2)] {
            let memory = SharedPages::new(pages).unwrap();
            let fd = memory.fd().try_clone_to_owned().unwrap();
            space
                .map(iova, pages as u64 * PAGE, Protection::BOTH, fd, 0)
                .unwrap();
        }
        let view = space.view();
        view.store_u64_release(DIRECTORY, TABLE).unwrap();
        for (index, page) in order.iter().enumerate() {
            view.store_u64_release(TABLE + index as u64 * 8, (page + 1) * PAGE)
                .unwrap();
        }
        let list = PageList::resolve(&view, DIRECTORY, order.len() as u32, Right::Write).unwrap();
        let list = list.starting_at(start);
        drop(view);
        let length = list.length();
        Self {
            space,
            region: Region::Pages(Arc::new(list)),
            length,
        }
    }
}
