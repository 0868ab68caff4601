//! The process that serves clients dies, and its records are damaged: the next process continues with what is left, for
//! those clients whose records are complete, and drops the others.
//!
//! ```text
//!   script ──► sessions, adapters ──► records in an area, copied ──► bytes or records damaged ──► another process goes on
//!                                                                                     └── script ──► all end, nothing is left
//! ```
//! Damaged bytes make no record that was not there. Records that are damaged together with their checksums, which no
//! accident does, may contain anything: they may then name another client's objects, but this process never ends
//! unintentionally.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use rustix::fs::fstat;
use rustix::io::{pread, pwrite};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use vrdma_keep::{Area, Capacity, Inherited, Record, Records};

use super::client::{self, Client};
use super::host::World;
use super::{CLIENTS, clients};
use crate::input::Input;

/// More records than the clients of a script have.
const CAPACITY: Capacity = Capacity {
    small: 256,
    large: 64,
};

/// Bytes of the area's head; the log is read if a word there requires it.
const HEAD_BYTES: usize = 128;

/// Offset of the slots: behind a page and the log.
const SLOTS_AT: usize = 4096 + vrdma_keep::LOG_BYTES;

/// Most actions before the death and after it.
const DEEDS_MAX: usize = 24;

/// Runs an input as a script with a death in its middle.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let area = Area::create(CAPACITY).expect("there is memory");
    let (records, ..) = Records::open(area.as_fd(), adapter_of).expect("it is an area");
    let mut world = World::recorded_in(Some(&records));
    let mut clients = clients(&mut world);
    client::connect(&mut world, &mut clients);
    deeds(&mut world, &mut clients, &mut input);
    let left = copy(&area);
    let sound = read(&copy(&area)).1;
    let times = input.below(8);
    let is_bytes = input.is_odd();
    match is_bytes {
        true => (0..times).for_each(|_| damage_bytes(&left, &mut input)),
        false => (0..times).for_each(|_| damage_record(&left, &mut input)),
    }
    let Some((records, found)) = read_if_sound(&left) else {
        // The head was damaged: nothing continues, as without an area.
        return;
    };
    if is_bytes {
        let known = |it: &Record| sound.iter().any(|was| is_same(was, it));
        assert!(found.iter().all(known), "damage made a record");
    }
    let (mut next, open) = World::revived(found, &records, duplicates);
    drop(world);
    if times == 0 {
        let open: Vec<_> = open.iter().map(|(number, _)| *number).collect();
        let were = (0..CLIENTS).filter(|number| clients[*number].is_open());
        assert_eq!(open, were.collect::<Vec<_>>(), "nothing was damaged");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let session = open.iter().find(|(at, _)| *at == number);
        client.follow(session.map(|(_, id)| *id));
    }
    next.carry();
    deeds(&mut next, &mut clients, &mut input);
    for client in clients {
        client.close(&mut next);
    }
    next.check_empty();
}

fn deeds(world: &mut World, clients: &mut [Client], input: &mut Input<'_>) {
    for _ in 0..input.below(DEEDS_MAX) {
        let at = input.below(CLIENTS);
        clients[at].act(world, input);
        world.carry();
    }
}

fn adapter_of(record: &Record) -> u32 {
    (record.key >> 32) as u32
}

fn is_same(a: &Record, b: &Record) -> bool {
    (a.kind, a.key, &a.bytes) == (b.kind, b.key, &b.bytes)
}

fn read_if_sound(area: &OwnedFd) -> Option<(Records, Vec<Record>)> {
    let (records, found, _) = Records::open(area.as_fd(), adapter_of).ok()?;
    Some((records, found))
}

fn read(area: &OwnedFd) -> (Records, Vec<Record>) {
    read_if_sound(area).expect("it is an area")
}

/// Copies an area, as it is found after a death.
fn copy(area: &OwnedFd) -> OwnedFd {
    let copy = Area::create(CAPACITY).expect("there is memory");
    let length = fstat(area).expect("it is a file").st_size as u64;
    let mut bytes = vec![0; 1 << 16];
    for at in (0..length).step_by(bytes.len()) {
        let read = pread(area, &mut bytes, at).expect("it is in memory");
        if bytes[..read].iter().any(|byte| *byte != 0) {
            pwrite(&copy, &bytes[..read], at).expect("it is as long");
        }
    }
    copy
}

/// Changes some bytes of the head or of the slots.
fn damage_bytes(area: &OwnedFd, input: &mut Input<'_>) {
    let length = fstat(area).expect("it is a file").st_size as usize;
    let at = match input.byte() {
        0..16 => input.below(HEAD_BYTES),
        16..64 => 4096 + usize::from(input.half()),
        _ => SLOTS_AT + input.word() as usize % (length - SLOTS_AT),
    };
    let count = 1 + input.below(8);
    let bytes = input.bytes(count);
    let fits = bytes.len().min(length - at);
    pwrite(area, &bytes[..fits], at as u64).expect("it is as long");
}

/// Removes, changes, truncates or renames a record, with a correct checksum.
fn damage_record(area: &OwnedFd, input: &mut Input<'_>) {
    let Some((records, found)) = read_if_sound(area) else {
        return;
    };
    if found.is_empty() {
        return;
    }
    let it = &found[usize::from(input.half()) % found.len()];
    let mut bytes = it.bytes.clone();
    match input.byte() % 8 {
        0 => records.remove(it.slot),
        1 => {
            bytes.truncate(usize::from(input.byte()));
            let _ = records.put(it.slot, &bytes);
        }
        2 => {
            let other = &found[usize::from(input.half()) % found.len()];
            let _ = records.insert(it.kind, other.key, &bytes);
        }
        3 => {
            let other = &found[usize::from(input.half()) % found.len()];
            let _ = records.put(it.slot, &other.bytes);
        }
        _ => {
            let at = usize::from(input.byte());
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (input.byte() % 8);
            }
            let _ = records.put(it.slot, &bytes);
        }
    }
    records.commit();
}

/// The descriptors that the process that died has open under these numbers. It lives on here, so each is duplicated.
fn duplicates(numbers: Vec<RawFd>) -> Inherited {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).expect("this process is there");
    // A damaged record may name a number that no descriptor has.
    let possible = numbers.into_iter().filter(|number| *number >= 0);
    let duplicates = possible.filter_map(|number| {
        let fd = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok()?;
        Some((number, fd))
    });
    Inherited::given(duplicates.collect::<BTreeMap<_, _>>())
}
