use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

use fastrand::Rng;
use rustix::fs::fstat;
use rustix::io::{pread, pwrite};

use super::*;

const CAPACITY: Capacity = Capacity {
    small: 20,
    large: 6,
};

/// Records by slot, so that two records of one kind and key are distinct.
type Contents = BTreeMap<SlotId, (u16, u64, Vec<u8>)>;

fn contents(records: Vec<Record>) -> Contents {
    let of = |record: Record| (record.slot, (record.kind, record.key, record.bytes));
    records.into_iter().map(of).collect()
}

fn reopen(area: &OwnedFd) -> (Store, Contents, usize) {
    let opened = Store::open(area.as_fd()).unwrap();
    (opened.store, contents(opened.records), opened.unsound)
}

fn random_bytes(rng: &mut Rng, most: usize) -> Vec<u8> {
    let length = rng.usize(..=most);
    (0..length).map(|_| rng.u8(..)).collect()
}

/// Carries out one random operation on the store, and on the model of its contents.
fn random_step(rng: &mut Rng, store: &mut Store, model: &mut Contents) {
    let slots: Vec<_> = model.keys().copied().collect();
    let slot = rng.choice(&slots).copied();
    match (rng.u8(..3), slot) {
        (0, Some(slot)) => {
            store.remove(slot).unwrap();
            model.remove(&slot);
        }
        (1, Some(slot)) => {
            let bytes = random_bytes(rng, CAPACITY.slot_bytes(slot.0) - HEADER);
            store.put(slot, &bytes).unwrap();
            model.get_mut(&slot).unwrap().2 = bytes;
        }
        _ => {
            let (kind, key) = (rng.u16(1..), rng.u64(..));
            let bytes = random_bytes(rng, LARGE_BYTES);
            match store.insert(kind, key, &bytes) {
                Ok(slot) => assert_eq!(model.insert(slot, (kind, key, bytes)), None),
                Err(full) => assert_eq!(full, Full::Slots),
            }
        }
    }
}

#[test]
fn what_is_committed_is_found_and_nothing_else() {
    let mut rng = Rng::with_seed(1);
    let area = Area::create(CAPACITY).unwrap();
    let (mut store, mut model, _) = reopen(&area);
    let mut committed = model.clone();
    for _ in 0..4000 {
        match rng.u8(..10) {
            0 => {
                let found;
                let unsound;
                drop(store);
                (store, found, unsound) = reopen(&area);
                assert_eq!((&found, unsound), (&committed, 0));
                model = found;
            }
            1 | 2 => {
                store.commit();
                committed = model.clone();
            }
            _ => random_step(&mut rng, &mut store, &mut model),
        }
    }
}

/// Copies the bytes to another area.
fn copy(area: &OwnedFd) -> OwnedFd {
    let copy = Area::create(CAPACITY).unwrap();
    let mut bytes = vec![0; fstat(area).unwrap().st_size as usize];
    assert_eq!(pread(area, &mut bytes, 0).unwrap(), bytes.len());
    assert_eq!(pwrite(&copy, &bytes, 0).unwrap(), bytes.len());
    copy
}

/// Carries out and commits a batch that `seed` determines, with `stores` stores before the kill. Returns the contents
/// before and after, and whether all stores were carried out.
fn batch(area: &OwnedFd, seed: u64, stores: u64) -> (Contents, Contents, bool) {
    let (mut store, before, _) = reopen(area);
    let mut after = before.clone();
    let mut rng = Rng::with_seed(seed);
    store.mapping.stores_left = stores;
    for _ in 0..rng.usize(1..6) {
        random_step(&mut rng, &mut store, &mut after);
    }
    store.commit();
    (before, after, store.mapping.stores_left > 0)
}

#[test]
fn a_kill_at_any_store_leaves_all_of_a_batch_or_nothing() {
    let area = Area::create(CAPACITY).unwrap();
    for seed in 0..12 {
        let mut seen = BTreeSet::new();
        for stores in 0.. {
            let copy = copy(&area);
            let (before, after, is_whole) = batch(&copy, seed, stores);
            let (_, found, unsound) = reopen(&copy);
            assert!(
                found == before || found == after,
                "a mix after {stores} stores of batch {seed}"
            );
            assert_eq!(unsound, 0);
            seen.insert(found == after);
            if is_whole {
                assert!(found == after);
                break;
            }
        }
        assert!(seen.contains(&true));
        batch(&area, seed, u64::MAX);
    }
}

#[test]
fn damage_never_makes_a_record() {
    let mut rng = Rng::with_seed(3);
    let area = Area::create(CAPACITY).unwrap();
    let mut ever = BTreeSet::new();
    let mut found_damage = 0;
    for round in 0..10_000 {
        let found;
        let (mut store, unsound);
        match Store::open(area.as_fd()) {
            Ok(opened) => {
                (store, unsound) = (opened.store, opened.unsound);
                found = contents(opened.records);
            }
            // The head is damaged.
            Err(_) => {
                rewrite_head(&area);
                continue;
            }
        }
        found_damage += unsound;
        for record in found.values() {
            assert!(ever.contains(record), "round {round}");
        }
        let mut model = found;
        for _ in 0..3 {
            random_step(&mut rng, &mut store, &mut model);
        }
        ever.extend(model.values().cloned());
        // Some commits are cut off, so that the log is read too.
        if rng.bool() {
            store.mapping.stores_left = rng.u64(..400);
        }
        store.commit();
        drop(store);
        damage(&mut rng, &area);
    }
    assert!(found_damage > 1000);
}

fn rewrite_head(area: &OwnedFd) {
    let fresh = Area::create(CAPACITY).unwrap();
    let mut head = [0; 16];
    pread(fresh, &mut head, 0).unwrap();
    pwrite(area, &head, 0).unwrap();
}

/// Changes up to eight bytes at one place: in the head, the word, the start of the log, or the slots.
fn damage(rng: &mut Rng, area: &OwnedFd) {
    let slots = CAPACITY.offset(0)..CAPACITY.area_bytes();
    let at = match rng.u8(..8) {
        0 => rng.usize(..16),
        1 => rng.usize(WORD..WORD + 8),
        2 | 3 => rng.usize(LOG..LOG + 2048),
        _ => rng.usize(slots),
    };
    let length = rng.usize(1..=8).min(CAPACITY.area_bytes() - at);
    let bytes: Vec<_> = (0..length).map(|_| rng.u8(..)).collect();
    pwrite(area, &bytes, at as u64).unwrap();
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let large = LOG_BYTES as u32 / 1024 + 1;
    let area = Area::create(Capacity { small: 1, large }).unwrap();
    let (mut store, ..) = reopen(&area);
    assert_eq!(store.insert(1, 1, &[0; LARGE_BYTES + 1]), Err(Full::Length));
    let long = [7; LARGE_BYTES];
    for key in 1..large {
        store.insert(1, key.into(), &long).unwrap();
    }
    assert_eq!(store.insert(1, 0, &long), Err(Full::Batch));
    assert_eq!(store.insert(1, 0, b""), Err(Full::Batch));
    store.commit();
    let small = store.insert(1, 0, b"").unwrap();
    assert_eq!(store.put(small, &[0; SMALL_BYTES + 1]), Err(Full::Length));
    assert_eq!(store.insert(1, 0, b""), Err(Full::Slots));
    store.commit();
    drop(store);
    assert_eq!(reopen(&area).1.len(), large as usize);
}

#[test]
fn an_area_has_memory_only_for_what_is_used() {
    let area = Area::create(Capacity {
        small: 1 << 16,
        large: 1 << 16,
    })
    .unwrap();
    let (mut store, ..) = reopen(&area);
    store.insert(1, 1, b"small").unwrap();
    store.insert(1, 2, &[1; LARGE_BYTES]).unwrap();
    store.commit();
    drop(store);
    assert_eq!(reopen(&area).1.len(), 2);
    // The head, the log's first page, and one page of each size.
    assert_eq!(fstat(&area).unwrap().st_blocks * 512, 4 * 4096);
}

#[test]
fn slots_are_listed_from_their_first_use_on() {
    let capacity = Capacity {
        small: 1 << 20,
        large: 5,
    };
    let area = Area::create(capacity).unwrap();
    let (mut store, ..) = reopen(&area);
    let small: Vec<_> = (0..20).map(|_| store.insert(1, 0, &[]).unwrap()).collect();
    let large: Vec<_> = (0..5)
        .map(|_| store.insert(1, 0, &[0; LARGE_BYTES]).unwrap())
        .collect();
    assert_eq!(store.insert(1, 0, &[0; LARGE_BYTES]), Err(Full::Slots));
    store.remove(large[3]).unwrap();
    store.remove(small[7]).unwrap();
    store.commit();
    let (mut store, found, _) = reopen(&area);
    assert_eq!(found.len(), 23);
    // The rest of the last page, which has 16 slots.
    assert_eq!(store.small.free.len(), 1 + 12);
    let next = [(); 14].map(|()| store.insert(1, 0, &[]).unwrap().0);
    assert_eq!(next[..2], [7, 20]);
    assert_eq!(next[13], 32);
    assert_eq!(store.insert(1, 0, &[0; LARGE_BYTES]), Ok(large[3]));
    assert_eq!(store.insert(1, 0, &[0; LARGE_BYTES]), Err(Full::Slots));
}

#[test]
fn what_is_not_an_area_is_refused() {
    let plain = tempfile::tempfile().unwrap();
    assert!(Store::open(plain.as_fd()).is_err());
    let most = Capacity {
        small: u32::MAX,
        large: 0,
    };
    assert!(Area::create(most).is_err());
}
