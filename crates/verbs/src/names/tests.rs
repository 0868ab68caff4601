use alloc::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn names(seed: u64) -> Names {
    Names::new(Source {
        seed,
        stream: 1,
        drawn: 0,
    })
}

fn numbers(seed: u64, count: u32) -> Vec<u32> {
    let mut names = names(seed);
    let given = (0..count).map(|slot| names.give(slot).unwrap().number());
    given.collect()
}

/// Returns the home of a number, as an attacker with the factor could compute it, to test what that gains.
fn home_of(names: &Names, number: u32) -> usize {
    names.home(number)
}

#[test]
fn every_name_is_found_and_no_other() {
    let mut names = names(7);
    let given: Vec<_> = (0..5000).map(|slot| names.give(slot).unwrap()).collect();
    let unique: BTreeSet<_> = given.iter().map(|name| name.number()).collect();
    assert_eq!(unique.len(), given.len());
    for (slot, name) in (0..).zip(&given) {
        assert_eq!(names.find(name.number()), Some(slot));
    }
    for number in 0..10_000 {
        let is_known = names.find(number).is_some();
        assert_eq!(is_known, unique.contains(&number), "{number}");
    }
    for name in &given {
        names.forget(name.number());
        names.forget(name.number());
        assert_eq!(names.find(name.number()), None);
    }
    assert_eq!(names.used, 0);
}

#[test]
fn numbers_with_a_meaning_are_not_given() {
    let all: BTreeSet<_> = numbers(1, 60_000).into_iter().collect();
    assert!(RESERVED.iter().all(|number| !all.contains(number)));
    assert!(all.iter().all(|number| *number < 1 << 24));
}

/// F15: a queue pair's number was its slot below 8 bits of its own, and a key's was the slot.
#[test]
fn numbers_are_spread_evenly_and_tell_nothing_of_each_other() {
    let all = numbers(3, 1 << 16);
    for shift in [0, 8, 16] {
        let mut counts = [0u32; 256];
        for number in &all {
            counts[(number >> shift & 0xff) as usize] += 1;
        }
        // 256 are expected of each; six standard deviations are 96.
        assert!(
            counts.iter().all(|count| count.abs_diff(256) < 96),
            "{shift}"
        );
    }
    let steps: BTreeSet<_> = all
        .windows(2)
        .map(|two| two[1].wrapping_sub(two[0]))
        .collect();
    assert!(steps.len() > 65_000, "{}", steps.len());
    let other: BTreeSet<_> = numbers(4, 1 << 16).into_iter().collect();
    // 256 are expected by chance.
    let common = all.iter().filter(|number| other.contains(number)).count();
    assert!(common < 352, "of another seed: {common}");
}

#[test]
fn variants_are_drawn_too() {
    let mut names = names(5);
    let variants: BTreeSet<_> = (0..4096)
        .map(|slot| names.give(slot).unwrap().variant())
        .collect();
    assert_eq!(variants.len(), 256);
}

/// A restored table never draws a name that was drawn before.
#[test]
fn a_table_that_goes_on_draws_on() {
    let mut first = names(9);
    let given: Vec<_> = (0..100).map(|slot| first.give(slot).unwrap()).collect();
    let mut second = names(9);
    second.source.drawn = first.source.drawn;
    assert!(second.set(&given));
    for (slot, name) in (0..).zip(&given) {
        assert_eq!(second.find(name.number()), Some(slot));
    }
    let (next, own) = (first.give(100), second.give(100));
    assert_eq!(next, own);
    assert!(!given.contains(&own.unwrap()));
}

#[test]
fn saved_names_that_cannot_be_are_refused() {
    let twice = [Name::new(5, 1), Name::NONE, Name::new(5, 2)];
    assert!(!names(1).set(&twice));
    let mut table = names(1);
    assert!(table.set(&[Name::NONE, Name::new(5, 1), Name::NONE]));
    assert_eq!((table.find(5), table.used), (Some(1), 1));
    assert_eq!(table.find(Name::NONE.number()), None);
    assert!(table.set(&[]));
    assert_eq!((table.find(5), table.used), (None, 0));
}

/// An attacker that even knows the factor keeps only the objects whose numbers are close to each other in the table, as
/// many as are allowed.
#[test]
fn who_keeps_what_collides_makes_no_lookup_longer() {
    let mut names = names(11);
    let mut kept: Vec<u32> = Vec::new();
    while names.homes() < 4096 {
        kept.push(names.give(0).unwrap().number());
    }
    let half = names.homes() / 2;
    kept.retain(|number| {
        let is_close = home_of(&names, *number) < half;
        if !is_close {
            names.forget(*number);
        }
        is_close
    });
    let mut drawn = names.source.drawn;
    while kept.len() < half - WINDOW {
        let number = names.give(1).unwrap().number();
        let draws = names.source.drawn - core::mem::replace(&mut drawn, names.source.drawn);
        assert!(draws < 64, "a new name takes {draws} draws");
        match home_of(&names, number) < half {
            true => kept.push(number),
            false => names.forget(number),
        }
    }
    assert_eq!(names.homes(), 4096, "the table did not grow");
    for number in &kept {
        let home = home_of(&names, *number);
        let window = &names.entries[home..home + WINDOW];
        assert!(window.iter().any(|entry| entry.number == *number));
    }
}

/// A saved state may have numbers made up for the factors that follow from its seed.
#[test]
fn made_up_numbers_end_in_a_refusal_or_a_table() {
    let mut attacked = names(13);
    let crowd: Vec<Name> = (2..2 + 4 * WINDOW as u32)
        .map(|number| Name::new(number << 17, 0))
        .collect();
    if attacked.set(&crowd) {
        assert!(
            (0..)
                .zip(&crowd)
                .all(|(slot, name)| attacked.find(name.number()) == Some(slot))
        );
    }
    assert!(attacked.homes() <= 8 * (2 * crowd.len()).next_power_of_two());
}

#[derive(Clone, Debug)]
enum Step {
    Give,
    Forget(prop::sample::Index),
    Save,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Give),
        2 => any::<prop::sample::Index>().prop_map(Step::Forget),
        1 => Just(Step::Save),
    ]
}

proptest! {
    #[test]
    fn it_is_a_map(seed: u64, steps in prop::collection::vec(step(), 0..400)) {
        let mut names = names(seed);
        let mut map: BTreeMap<u32, u32> = BTreeMap::new();
        let mut slots: Vec<Name> = Vec::new();
        for step in steps {
            match step {
                Step::Give => {
                    let slot = slots.len() as u32;
                    let name = names.give(slot).unwrap();
                    slots.push(name);
                    prop_assert_eq!(map.insert(name.number(), slot), None);
                }
                Step::Forget(which) if !slots.is_empty() => {
                    let at = which.index(slots.len());
                    let name = &mut slots[at];
                    names.forget(name.number());
                    map.remove(&name.number());
                    *name = Name::NONE;
                }
                Step::Forget(_) => {}
                Step::Save => {
                    let source = names.source;
                    names = Names::new(source);
                    prop_assert!(names.set(&slots));
                }
            }
            prop_assert_eq!(names.used, map.len());
        }
        for (number, slot) in map {
            prop_assert_eq!(names.find(number), Some(slot));
            prop_assert_eq!(names.find(number ^ 1 << 30), None);
        }
    }
}
