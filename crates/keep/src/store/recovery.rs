//! Opening an area: an unfinished commit is carried out, and every image is checked before it counts as a record. Any
//! byte of the area may be damaged.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use zerocopy::FromZeros;

use super::layout::{Capacity, HEADER, Header, LOG, PAGE, WORD, map};
use super::{Class, Known, LOG_BYTES, Opened, Record, SlotId, Store};
use crate::mapping::Mapping;

/// Returns the commit's word for a log of `bytes` bytes: the number twice, so that damage is noticed.
pub(super) fn commit_word(bytes: usize) -> u64 {
    let bytes = bytes as u64;
    bytes | (!bytes << 32)
}

pub(super) fn open(area: BorrowedFd<'_>) -> io::Result<Opened> {
    let (mut mapping, capacity) = map(area)?;
    let mut unsound = usize::from(!finish_commit(&mut mapping, capacity));
    let written = written_pages(area, capacity.area_bytes())?;
    let used = capacity.used_slots(&written);
    let mut store = Store::without_records(mapping, capacity, &used)?;
    let mut records = Vec::new();
    // Descending, so that the lowest free slots are taken first and memory stays together.
    let [small, large] = used;
    for slot in small.chain(large).rev() {
        let content = if written[capacity.offset(slot) / PAGE] {
            content(&store.mapping, slot, capacity)
        } else {
            Content::Free
        };
        match content {
            Content::Record(header) => records.push(store.adopt(header)),
            Content::Free => store.free(slot),
            Content::Unsound => {
                unsound += 1;
                let at = capacity.offset(slot);
                store.mapping.write(at, &[0; HEADER]);
                store.free(slot);
            }
        }
    }
    records.reverse();
    Ok(Opened {
        store,
        records,
        unsound,
    })
}

enum Content {
    Free,
    Record(Header),
    Unsound,
}

fn content(mapping: &Mapping, slot: u32, capacity: Capacity) -> Content {
    let at = capacity.offset(slot);
    match Header::sound(mapping, at, capacity) {
        Some(header) if header.slot != slot => Content::Unsound,
        Some(header) if header.kind == 0 => Content::Free,
        Some(header) => Content::Record(header),
        None if mapping.bytes(at, HEADER).iter().all(|byte| *byte == 0) => Content::Free,
        None => Content::Unsound,
    }
}

/// Carries out a commit that was cut off. `false` if it cannot be read any more: then the slots that it had begun to
/// write are checked one by one.
fn finish_commit(mapping: &mut Mapping, capacity: Capacity) -> bool {
    let word = mapping.marked(WORD);
    if word == 0 {
        return true;
    }
    let images = committed(mapping, word, capacity);
    for (at, header) in images.iter().flatten() {
        let length = HEADER + usize::from(header.length);
        mapping.copy(*at, capacity.offset(header.slot), length);
    }
    mapping.mark(WORD, 0);
    images.is_some()
}

/// Returns the images of the log, all of them or none.
fn committed(mapping: &Mapping, word: u64, capacity: Capacity) -> Option<Vec<(usize, Header)>> {
    let length = (word & u64::from(u32::MAX)) as usize;
    if length > LOG_BYTES || commit_word(length) != word {
        return None;
    }
    let mut images = Vec::new();
    let mut at = 0;
    while at < length {
        // The last image may begin where less than a slot is left, if the word is damaged.
        if length - at < HEADER {
            return None;
        }
        let header = Header::sound(mapping, LOG + at, capacity)?;
        images.push((LOG + at, header));
        at += capacity.slot_bytes(header.slot);
    }
    (at == length).then_some(images)
}

/// Returns which pages have memory: reading the others would give them some.
fn written_pages(area: BorrowedFd<'_>, length: usize) -> io::Result<Vec<bool>> {
    let mut written = vec![false; length.div_ceil(PAGE)];
    let mut at = 0;
    while at < length as u64 {
        let start = match seek(area, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => break,
            other => other?,
        };
        at = seek(area, SeekFrom::Hole(start))?;
        written[start as usize / PAGE..(at as usize).div_ceil(PAGE)].fill(true);
    }
    Ok(written)
}

impl Store {
    /// Makes a store without records, whose slots beyond the used ones are free.
    fn without_records(
        mapping: Mapping,
        capacity: Capacity,
        [small, large]: &[Range<u32>; 2],
    ) -> io::Result<Self> {
        let class = |next, end| Class {
            free: Vec::new(),
            next,
            end,
        };
        let known = Known::new_vec_zeroed(capacity.slots() as usize);
        Ok(Self {
            mapping,
            capacity,
            known: known.map_err(|_| io::ErrorKind::OutOfMemory)?,
            small: class(small.end, capacity.small),
            large: class(large.end, capacity.slots()),
            batch: Vec::new(),
            used: 0,
        })
    }

    fn adopt(&mut self, header: Header) -> Record {
        let known = &mut self.known[header.slot as usize];
        known.key = header.key;
        known.kind = header.kind;
        let at = self.capacity.offset(header.slot) + HEADER;
        Record {
            kind: header.kind,
            key: header.key,
            slot: SlotId(header.slot),
            bytes: self.mapping.bytes(at, header.length.into()).to_vec(),
        }
    }
}
