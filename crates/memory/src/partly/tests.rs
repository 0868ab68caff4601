//! Tests in which the client is this process itself, and its file is mapped nowhere else: so each byte shows by which
//! way it went.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;
use crate::{ClientMemory, PAGE, Space, Spot};

/// Bytes before those of the file, and behind them.
const EDGE: usize = 100;
/// Bytes of the file.
const MIDDLE: usize = 2 * PAGE as usize;
const ALL: usize = EDGE + MIDDLE + EDGE;

/// A region of several parts, and the places where its bytes really are.
struct Fixture {
    file: OwnedFd,
    bytes: Box<[u8]>,
    region: Region,
}

impl Fixture {
    fn new() -> Self {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, MIDDLE as u64).unwrap();
        let mut bytes = vec![0; ALL].into_boxed_slice();
        let client = ClientRegion::new(client(), bytes.as_mut_ptr() as u64, ALL as u64);
        let mapped = FileRegion::new(&file, 0, MIDDLE as u64, 0, true).unwrap();
        let middle = EDGE as u64..(EDGE + MIDDLE) as u64;
        let region = Region::Partly(PartlyMapped::new(client, mapped, middle));
        Self {
            file,
            bytes,
            region,
        }
    }

    /// Returns what the program would see if it had the file in the middle. The bytes below the file must be untouched.
    fn contents(&self) -> Vec<u8> {
        let hidden = &self.bytes[EDGE..EDGE + MIDDLE];
        assert!(hidden.iter().all(|byte| *byte == 0), "went by its address");
        let mut all = self.bytes.to_vec();
        rustix::io::pread(&self.file, &mut all[EDGE..EDGE + MIDDLE], 0).unwrap();
        all
    }
}

fn client() -> Arc<ClientMemory> {
    let own = File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    let nonce = 0x1234_5678_9abc_def0u64;
    let at = &raw const nonce as u64;
    let mut memory = ClientMemory::new(own.unwrap().into(), at, nonce, Arc::default()).unwrap();
    memory.trust(rustix::process::getpid(), at, nonce);
    Arc::new(memory)
}

/// A stretch of a region.
fn stretch() -> impl Strategy<Value = Range<usize>> {
    let edges = prop_oneof![
        0..=ALL,
        EDGE - 9..=EDGE + 9,
        EDGE + MIDDLE - 9..=EDGE + MIDDLE + 9
    ];
    (edges.clone(), edges).prop_map(|(a, b)| a.min(b)..a.max(b))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bytes_go_where_they_are(
        written in stretch(), read in stretch(), copied in stretch(), to in 0..ALL, seed: u8
    ) {
        let (one, other) = (Fixture::new(), Fixture::new());
        let space = Space::new();
        let view = space.view();
        let data: Vec<u8> = written.clone().map(|at| (at as u8).wrapping_add(seed) | 1).collect();
        let mut wanted = vec![0; ALL];
        wanted[written.clone()].copy_from_slice(&data);
        Memory::write(&view, &one.region, written.start as u64, &data).unwrap();
        prop_assert_eq!(one.contents(), &wanted[..]);
        let mut seen = vec![0; read.len()];
        Memory::read(&view, &one.region, read.start as u64, &mut seen).unwrap();
        prop_assert_eq!(&seen, &wanted[read]);
        let length = copied.len().min(ALL - to);
        let to_there = Spot::new(&other.region, to as u64);
        let from = Spot::new(&one.region, copied.start as u64);
        view.copy(to_there, &view, from, length as u64).unwrap();
        let mut copy = vec![0; ALL];
        copy[to..to + length].copy_from_slice(&wanted[copied.start..copied.start + length]);
        prop_assert_eq!(other.contents(), copy);
    }
}

#[test]
fn words_are_updated_where_they_are() {
    let fixture = Fixture::new();
    let space = Space::new();
    let view = space.view();
    let edge = EDGE as u64;
    assert_eq!(
        view.fetch_update(&fixture.region, edge, &|old| old + 5),
        Ok(0)
    );
    assert_eq!(view.fetch_update(&fixture.region, edge, &|old| old), Ok(5));
    let aligned =
        (fixture.bytes.as_ptr() as u64).next_multiple_of(8) - fixture.bytes.as_ptr() as u64;
    assert_eq!(view.fetch_update(&fixture.region, aligned, &|_| 7), Ok(0));
    let contents = fixture.contents();
    assert_eq!((contents[aligned as usize], contents[EDGE]), (7, 5));
}

#[test]
fn an_overlapping_copy_is_seen_across_parts() {
    let fixture = Fixture::new();
    let space = Space::new();
    let view = space.view();
    let data: Vec<u8> = (0..ALL).map(|at| at as u8).collect();
    Memory::write(&view, &fixture.region, 0, &data).unwrap();
    let to = Spot::new(&fixture.region, 8);
    let from = Spot::new(&fixture.region, 0);
    view.copy(to, &view, from, ALL as u64 - 8).unwrap();
    assert_eq!(fixture.contents()[8..], data[..ALL - 8]);
}

#[test]
fn what_is_beyond_the_end_or_not_there_faults() {
    let fixture = Fixture::new();
    let space = Space::new();
    let view = space.view();
    let far = Memory::read(&view, &fixture.region, u64::MAX - 3, &mut [0; 8]);
    assert_eq!(far, Err(Fault::Gone));
    let lost = ClientRegion::new(client(), 4096, ALL as u64);
    let mapped = FileRegion::new(&fixture.file, 0, MIDDLE as u64, 0, true).unwrap();
    let middle = EDGE as u64..(EDGE + MIDDLE) as u64;
    let lost = Region::Partly(PartlyMapped::new(lost, mapped, middle));
    let copied = view.copy(
        Spot::new(&fixture.region, 0),
        &view,
        Spot::new(&lost, 0),
        ALL as u64,
    );
    assert_eq!(copied, Err(CopyFault::Source));
    let copied = view.copy(
        Spot::new(&lost, 0),
        &view,
        Spot::new(&fixture.region, 0),
        ALL as u64,
    );
    assert_eq!(copied, Err(CopyFault::Destination));
}
