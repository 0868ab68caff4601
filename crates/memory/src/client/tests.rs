//! Tests in which the client is this process itself: the kernel treats it like any other.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;
use crate::CopyFault;
use crate::{FileRegion, Memory, Region, Space, Spot};

fn own_memory() -> OwnedFd {
    let options = File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    options.unwrap().into()
}

fn client() -> Arc<ClientMemory> {
    let nonce = 0x1234_5678_9abc_def0u64;
    let at = &raw const nonce as u64;
    let mut memory = ClientMemory::new(own_memory(), at, nonce, Arc::default()).unwrap();
    memory.trust(rustix::process::getpid(), at, nonce + 1);
    Arc::new(memory)
}

fn region_at(client: &Arc<ClientMemory>, start: u64) -> Region {
    Region::Client(ClientRegion::new(Arc::clone(client), start, 64))
}

fn region(client: &Arc<ClientMemory>, bytes: &mut [u8]) -> Region {
    Region::Client(ClientRegion::new(
        Arc::clone(client),
        bytes.as_mut_ptr() as u64,
        bytes.len() as u64,
    ))
}

#[test]
fn only_the_client_s_own_memory_is_taken() {
    let nonce = 7u64;
    let at = &raw const nonce as u64;
    let wrong = ClientMemory::new(own_memory(), at, 8, Arc::default());
    assert_eq!(wrong.err(), Some(NotMemory::WrongContents));
    let wrong = ClientMemory::new(own_memory(), 16, 8, Arc::default());
    assert_eq!(wrong.err(), Some(NotMemory::WrongContents));
    for other in ["/proc/self/maps", "/dev/zero", "/etc/passwd"] {
        let file = File::open(other).unwrap().into();
        assert_eq!(
            ClientMemory::new(file, at, 7, Arc::default()).err(),
            Some(NotMemory::WrongFile),
            "{other}"
        );
    }
}

#[test]
fn all_bytes_of_a_write_arrive_whatever_its_length_and_by_whichever_way() {
    let trusted = client();
    let nonce = 5u64;
    let at = &raw const nonce as u64;
    let by_thread = ClientMemory::new(own_memory(), at, nonce, Arc::default()).unwrap();
    let space = Space::new();
    let view = space.view();
    let lengths = (0..20).chain([4096, BULK + 1, BOUNCE + 3, 2 * BOUNCE + 7]);
    for client in [trusted, Arc::new(by_thread)] {
        for length in lengths.clone() {
            let mut bytes = vec![0; length + 2];
            let data: Vec<u8> = (0..length).map(|at| at as u8 | 1).collect();
            let to = region(&client, &mut bytes);
            Memory::write(&view, &to, 1, &data).unwrap();
            assert_eq!((bytes[0], bytes[length + 1]), (0, 0));
            assert_eq!(bytes[1..=length], data, "{length}");
        }
    }
}

#[test]
fn the_tail_is_a_vector_of_its_own_behind_the_head() {
    let lengths = |way: Direction, length| {
        let Parts { vectors, count } = way.parts(std::ptr::null_mut(), length);
        let meant = &vectors[..count as usize];
        meant.iter().map(|part| part.iov_len).collect::<Vec<_>>()
    };
    for (length, wanted) in [
        (1, vec![1]),
        (8, vec![8]),
        (9, vec![1, 8]),
        (64, vec![56, 8]),
    ] {
        assert_eq!(lengths(Direction::WriteTailLast, length), wanted);
        assert_eq!(lengths(Direction::WriteOnce, length), [length]);
    }
    for (length, wanted) in [(90, 90), (100, 100), (101, 92), (107, 92), (108, 100)] {
        assert_eq!(piece(length, 100), wanted);
    }
}

#[test]
fn bytes_go_between_two_regions_and_atomics_return_the_old_word() {
    let client = client();
    let (mut a, mut b) = ([1u8; 300_000], vec![0u8; 300_000]);
    let (from, to) = (region(&client, &mut a), region(&client, &mut b));
    let space = Space::new();
    let view = space.view();
    view.copy(Spot::new(&to, 1), &view, Spot::new(&from, 0), 299_999)
        .unwrap();
    assert_eq!((b[0], b[1], b[299_999]), (0, 1, 1));
    let mut words = [5u64, 6];
    let start = words.as_mut_ptr() as u64;
    let words_region = region_at(&client, start);
    assert_eq!(view.fetch_update(&words_region, 8, &|old| old + 10), Ok(6));
    assert_eq!(
        view.fetch_update(&words_region, 4, &|old| old),
        Err(Fault::Gone)
    );
    let mut now = [0; 16];
    Memory::read(&view, &words_region, 0, &mut now).unwrap();
    assert_eq!(now[8..], 16u64.to_le_bytes());
}

#[test]
fn what_is_not_mapped_faults_on_its_side() {
    let client = client();
    let mut bytes = [0u8; 16];
    let good = region(&client, &mut bytes);
    let bad = region_at(&client, 4096);
    let wraps = region_at(&client, u64::MAX - 4);
    let space = Space::new();
    let view = space.view();
    assert_eq!(
        view.copy(Spot::new(&good, 0), &view, Spot::new(&bad, 0), 8),
        Err(CopyFault::Source)
    );
    assert_eq!(
        view.copy(Spot::new(&bad, 0), &view, Spot::new(&good, 0), 8),
        Err(CopyFault::Destination)
    );
    assert_eq!(
        Memory::read(&view, &wraps, 8, &mut [0; 8]),
        Err(Fault::Gone)
    );
}

#[test]
fn a_trusted_process_is_reached_both_ways() {
    let nonce = 99u64;
    let at = &raw const nonce as u64;
    let mut memory = ClientMemory::new(own_memory(), at, nonce, Arc::default()).unwrap();
    memory.trust(rustix::process::getpid(), at, nonce + 1);
    assert!(!memory.is_trusted(), "the nonce differs");
    memory.trust(rustix::process::getpid(), at, nonce);
    let client = Arc::new(memory);
    let (mut a, mut b) = (vec![3u8; 1 << 20], vec![0u8; 1 << 20]);
    let (from, to) = (region(&client, &mut a), region(&client, &mut b));
    let space = Space::new();
    let view = space.view();
    view.copy(Spot::new(&to, 0), &view, Spot::new(&from, 0), 1 << 20)
        .unwrap();
    assert_eq!(a, b);
}

#[test]
fn a_file_and_a_client_exchange_bytes() {
    let client = client();
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 8192).unwrap();
    let mapped = Region::File(FileRegion::new(&file, 4096, 4096, 16, true).unwrap());
    let mut bytes = *b"0123456789abcdef";
    let own = region(&client, &mut bytes);
    let space = Space::new();
    let view = space.view();
    view.copy(Spot::new(&mapped, 0), &view, Spot::new(&own, 0), 16)
        .unwrap();
    view.copy(Spot::new(&own, 0), &view, Spot::new(&mapped, 8), 8)
        .unwrap();
    let mut out = [0; 16];
    rustix::io::pread(&file, &mut out, 4096 + 16).unwrap();
    assert_eq!(&out, b"0123456789abcdef");
    assert_eq!(
        view.fetch_update(&mapped, 8, &|_| 7),
        Ok(u64::from_le_bytes(*b"89abcdef"))
    );
    assert_eq!(view.fetch_update(&mapped, 4, &|_| 7), Err(Fault::Gone));
    let beyond = view.copy(Spot::new(&mapped, 4080), &view, Spot::new(&own, 0), 16);
    assert_eq!(beyond, Err(CopyFault::Destination));
}

/// Number of page faults of this thread that needed no disk (proc_pid_stat(5)).
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let behind_name = stat.rsplit_once(')').unwrap().1;
    let field = behind_name.split_ascii_whitespace().nth(7).unwrap();
    field.parse().unwrap()
}

#[test]
fn a_long_copy_does_not_fault_at_each_page() {
    const PAGES: usize = 256;
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    let data = vec![7; PAGES * 4096];
    rustix::io::pwrite(&file, &data, 0).unwrap();
    let mapped = FileRegion::new(&file, 0, data.len() as u64, 0, true).unwrap();
    let data = vec![8; data.len()];
    let space = Space::new();
    let view = space.view();
    let before = faults();
    Memory::write(&view, &Region::File(mapped), 0, &data).unwrap();
    let during = faults() - before;
    assert!(during < PAGES as u64 / 4, "{during} faults");
    let mut last = [0; 4096];
    rustix::io::pread(&file, &mut last, data.len() as u64 - 4096).unwrap();
    assert_eq!(last, [8; 4096]);
}

#[test]
fn a_file_that_may_only_be_read_is_not_written() {
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 4096).unwrap();
    let mapped = Region::File(FileRegion::new(&file, 0, 4096, 0, false).unwrap());
    let space = Space::new();
    let view = space.view();
    assert_eq!(Memory::write(&view, &mapped, 0, &[1]), Err(Fault::Gone));
    assert_eq!(Memory::read(&view, &mapped, 0, &mut [1]), Ok(()));
    assert!(FileRegion::new(&file, 0, 100, 0, false).is_err());
    assert!(FileRegion::new(&file, 0, 8192, 0, false).is_err());
}

#[test]
fn a_part_of_a_file_is_reached_by_the_same_mapping() {
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 3 * 4096).unwrap();
    let whole = FileRegion::new(&file, 4096, 8192, 0, true).unwrap();
    let mut part = whole.part(4096, 100).unwrap();
    let other = part.clone();
    assert!(!part.is_alone());
    drop(other);
    assert!(part.is_alone());
    for (start, length) in [(8192, 1), (8000, 193), (u64::MAX, 2), (0, 0)] {
        assert!(whole.part(start, length).is_err(), "{start} {length}");
    }
    drop(whole);
    let part = Region::File(part);
    let space = Space::new();
    let view = space.view();
    assert_eq!(Memory::write(&view, &part, 99, &[7]), Ok(()));
    assert_eq!(Memory::write(&view, &part, 99, &[7, 7]), Err(Fault::Gone));
    let mut byte = [0];
    rustix::io::pread(&file, &mut byte, 8192 + 99).unwrap();
    assert_eq!(byte, [7]);
    ftruncate(&file, 0).unwrap();
    assert_eq!(Memory::read(&view, &part, 0, &mut byte), Err(Fault::Gone));
}

#[test]
fn a_tenant_s_thread_copies_as_well() {
    let nonce = 5u64;
    let at = &raw const nonce as u64;
    let client = Arc::new(ClientMemory::new(own_memory(), at, nonce, Arc::default()).unwrap());
    let (mut a, mut b) = (vec![7u8; 300_000], vec![0u8; 300_000]);
    let (from, to) = (region(&client, &mut a), region(&client, &mut b));
    let bad = region_at(&client, 4096);
    let space = Space::new();
    let view = space.view();
    view.copy(Spot::new(&to, 0), &view, Spot::new(&from, 0), 300_000)
        .unwrap();
    assert_eq!(a, b);
    assert_eq!(
        view.copy(Spot::new(&to, 0), &view, Spot::new(&bad, 0), 8),
        Err(CopyFault::Source)
    );
}

#[test]
fn all_connections_of_a_process_that_stalled_are_marked() {
    let tenant = Arc::new(Tenant::default());
    let nonce = 5u64;
    let (pid, at) = (rustix::process::getpid(), &raw const nonce as u64);
    let connect = || {
        let mut memory = ClientMemory::new(own_memory(), at, nonce, Arc::clone(&tenant)).unwrap();
        memory.trust(pid, at, nonce);
        memory
    };
    let (one, other) = (connect(), connect());
    assert!(one.is_at_hand(at, 8) && other.is_at_hand(at, 8));
    one.stalled.set();
    assert!(!other.is_at_hand(at, 8));
    drop((one, other));
    assert!(!connect().is_at_hand(at, 8), "it is the same process still");
}
