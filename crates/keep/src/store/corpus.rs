//! An area as a worker with this layout leaves it: `corpus/area1.txt` has the bytes that are not zero.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};

use super::*;
use crate::store::layout::{PAGE, SEALS};

const CAPACITY: Capacity = Capacity { small: 3, large: 2 };

/// Bytes that one line of the file stands for.
const LINE: usize = 32;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/area1.txt")
}

fn contents() -> [(u16, u64, Vec<u8>); 3] {
    [
        (1, 7 << 32 | 1, b"small".to_vec()),
        (9, u64::MAX, Vec::new()),
        (16, 2, (0..LARGE_BYTES).map(|at| at as u8).collect()),
    ]
}

/// Makes an area whose last commit was cut off after its word was set, so that the log counts.
fn left_behind() -> OwnedFd {
    let area = Area::create(CAPACITY).unwrap();
    let mut store = Store::open(area.as_fd()).unwrap().store;
    let [first, second, third] = contents();
    store.insert(first.0, first.1, &first.2).unwrap();
    let gone = store.insert(5, 5, b"gone").unwrap();
    store.commit();
    store.remove(gone).unwrap();
    store.commit();
    store.insert(second.0, second.1, &second.2).unwrap();
    store.insert(third.0, third.1, &third.2).unwrap();
    let stores = 3;
    store.mapping.stores_left = stores;
    store.commit();
    area
}

fn written(area: &OwnedFd) -> String {
    let mut bytes = vec![0; CAPACITY.area_bytes()];
    assert_eq!(pread(area, &mut bytes, 0).unwrap(), bytes.len());
    let mut text = format!("{}\n", bytes.len());
    for (at, line) in (0..).step_by(LINE).zip(bytes.chunks(LINE)) {
        if line.iter().any(|byte| *byte != 0) {
            let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!("{at:x} {hex}\n");
        }
    }
    text
}

fn read(text: &str) -> OwnedFd {
    let mut lines = text.lines();
    let length: usize = lines.next().unwrap().parse().unwrap();
    let fd = memfd_create("corpus", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, length.next_multiple_of(PAGE) as u64).unwrap();
    for line in lines {
        let (at, hex) = line.split_once(' ').unwrap();
        let digits = hex
            .as_bytes()
            .chunks(2)
            .map(|it| str::from_utf8(it).unwrap());
        let bytes: Vec<u8> = digits
            .map(|it| u8::from_str_radix(it, 16).unwrap())
            .collect();
        pwrite(&fd, &bytes, u64::from_str_radix(at, 16).unwrap()).unwrap();
    }
    fcntl_add_seals(&fd, SEALS).unwrap();
    fd
}

#[test]
fn an_area_of_this_layout_is_read() {
    let area = read(&fs::read_to_string(file()).unwrap());
    let opened = Store::open(area.as_fd()).unwrap();
    let records = opened.records.into_iter();
    let mut found: Vec<_> = records.map(|it| (it.kind, it.key, it.bytes)).collect();
    found.sort();
    assert_eq!((found.as_slice(), opened.unsound), (&contents()[..], 0));
}

#[test]
#[ignore = "writes a file, for whoever has given the layout another number"]
fn write_the_corpus() {
    fs::write(file(), written(&left_behind())).unwrap();
}
