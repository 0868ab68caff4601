//! Streams that QEMU 11.1.3 writes into a file.

use super::*;

/// Offsets of the pages of the placed block and of the other one.
const OURS_AT: u64 = 1 << 20;
const BIOS_AT: u64 = 3 << 20;
const BIOS_PAGES: u64 = 4;

/// A write: its offset and its bytes.
type Written = (u64, Vec<u8>);

struct File {
    writes: Vec<Written>,
    /// Offset at which the stream goes on.
    at: u64,
}

impl File {
    fn stream(mut self, bytes: Vec<u8>) -> Self {
        let at = self.at;
        self.at += bytes.len() as u64;
        self.write(at, bytes)
    }

    fn write(mut self, at: u64, bytes: Vec<u8>) -> Self {
        self.writes.push((at, bytes));
        self
    }

    fn pages(self, at: u64, first: u64, fills: &[u8]) -> Self {
        let bytes = fills.iter().flat_map(|fill| vec![*fill; 4096]);
        self.write(at + first * PAGE_BYTES, bytes.collect())
    }

    fn read(&self) -> Result<Out, Fault> {
        let mut stream = Stream::of_file(vec![Block {
            name: OURS.to_vec(),
            bytes: PAGES * PAGE_BYTES,
            page_bytes: PAGE_BYTES,
        }]);
        let mut out = Out::default();
        for (at, bytes) in &self.writes {
            stream.write(*at, bytes, &mut out)?;
        }
        Ok(out)
    }
}

fn offsets(bitmap: u64, pages: u64) -> Vec<u8> {
    let longs = [PAGE_BYTES, bitmap, pages].map(u64::to_be_bytes);
    [word(1), longs.concat()].concat()
}

fn block(name: &[u8], pages: u64) -> Vec<u8> {
    [named(name), (pages * PAGE_BYTES).to_be_bytes().to_vec()].concat()
}

/// A file up to the end of the list of blocks, with the offset of the placed block's bitmap.
fn begun(capabilities: &[&[u8]]) -> (File, u64) {
    let begin = [vec![1], word(2), named(b"ram"), word(0), word(4)].concat();
    let total = page_word(PAGES + BIOS_PAGES, 4);
    let head = [beginning(capabilities), begin, total, block(OURS, PAGES)].concat();
    let bitmap = head.len() as u64 + 28;
    let file = File {
        writes: Vec::new(),
        at: 0,
    };
    let mut file = file.stream(head).stream(offsets(bitmap, OURS_AT));
    file.at = OURS_AT + PAGES * PAGE_BYTES;
    let mut file = file.stream(block(b"bios", BIOS_PAGES));
    let next = file.at + 28;
    file = file.stream(offsets(next, BIOS_AT));
    file.at = BIOS_AT + BIOS_PAGES * PAGE_BYTES;
    let end = [page_word(0, 16), footer()].concat();
    (file.stream(end), bitmap)
}

/// The same beginning as the destination reads it.
fn without_file(capabilities: &[&[u8]]) -> Vec<u8> {
    [beginning(capabilities), memory()].concat()
}

fn bios(number: u64, fill: u8) -> Vec<u8> {
    [page_word(number, 8), named(b"bios"), vec![fill; 4096]].concat()
}

#[test]
fn pages_are_placed_and_others_come_at_the_end_of_a_part() {
    let (file, bitmap) = begun(&[b"mapped-ram", b"x"]);
    let part = |kind: u8| [vec![kind], word(2)].concat();
    let end = || [page_word(0, 16), footer()].concat();
    let file = file
        .pages(OURS_AT, 3, &[1, 2])
        .pages(BIOS_AT, 0, &[7, 8])
        .stream([part(2), end()].concat())
        .pages(BIOS_AT, 1, &[9])
        .pages(OURS_AT, 3, &[5])
        // QEMU may write its buffer before the last pages.
        .stream(part(3))
        .pages(BIOS_AT, 1, &[10])
        .write(bitmap, vec![0b0001_1000, 0])
        .stream([end(), devices()].concat());
    let out = file.read().unwrap();
    let expected = [
        without_file(&[b"x"]),
        super::part(2, &[bios(0, 7), bios(1, 8)]),
        super::part(3, &[bios(1, 10)]),
        devices(),
    ];
    assert_eq!(out.forwarded, expected.concat());
    assert_eq!(
        out.pages,
        [ours(3, false), ours(4, false), ours(3, false)],
        "each as often as it was written"
    );
}

#[test]
fn a_list_of_capabilities_that_would_be_empty_is_left_out() {
    let (file, _) = begun(&[b"mapped-ram"]);
    let out = file.read().unwrap();
    let uuid = [vec![5], named(b"configuration/uuid"), word(1), vec![7; 16]].concat();
    let head = [b"QEVM\0\0\0\x03\x07".to_vec(), word(3), b"q35".to_vec()].concat();
    assert_eq!(out.forwarded, [head, uuid, memory()].concat());
    let (none, _) = begun(&[]);
    assert_eq!(none.read().unwrap().forwarded, without_file(&[]));
}

#[test]
fn a_page_that_was_written_and_is_not_in_the_bitmap_is_told() {
    let (file, bitmap) = begun(&[]);
    let file = file.pages(OURS_AT, 9, &[1]);
    assert!(file.read().is_ok());
    let file = file.write(bitmap, vec![0xff, 0b1111_1101]);
    assert_eq!(file.read(), Err(Fault::LeftOut("ram".to_owned())));
    let (file, bitmap) = begun(&[]);
    // Pages that were never written are not checked, like memory that the guest gave back.
    let file = file.write(bitmap, vec![0, 0]);
    assert!(file.read().is_ok());
}

#[test]
fn what_is_written_elsewhere_than_pages_and_bitmaps_are_is_refused() {
    let error = |at, bytes: usize| {
        let (file, _) = begun(&[]);
        file.write(at, vec![0; bytes]).read().unwrap_err()
    };
    assert_eq!(error(OURS_AT + 5, 4096), Fault::PartOfPage(5));
    assert_eq!(error(OURS_AT, 100), Fault::PartOfPage(0));
    let beyond = Fault::OutOfBlock {
        block: "ram".to_owned(),
        offset: (PAGES - 1) * PAGE_BYTES,
    };
    assert_eq!(error(OURS_AT + (PAGES - 1) * PAGE_BYTES, 8192), beyond);
    let (_, bitmap) = begun(&[]);
    let long = OURS_AT as usize;
    assert!(matches!(error(bitmap, long), Fault::OutOfBlock { .. }));
}

#[test]
fn offsets_that_overlap_are_refused() {
    let list = |offsets: Vec<u8>| {
        let begin = [vec![1], word(2), named(b"ram"), word(0), word(4)].concat();
        let total = page_word(PAGES, 4);
        let all = [beginning(&[]), begin, total, block(OURS, PAGES), offsets].concat();
        let file = File {
            writes: vec![(0, all)],
            at: 0,
        };
        file.read().map(drop)
    };
    let refused = Err(Fault::Offsets("ram".to_owned()));
    assert_eq!(list(offsets(200, OURS_AT)), Ok(()));
    assert_eq!(list(offsets(200, 201)), refused, "no room for the bitmap");
    assert_eq!(list(offsets(0, u64::MAX)), refused);
    assert_eq!(list(offsets(u64::MAX, 0)), refused);
    let other_version = [word(2), offsets(200, OURS_AT)[4..].to_vec()].concat();
    assert_eq!(list(other_version), refused);
}

#[test]
fn post_copy_and_long_lists_are_refused() {
    let advised = [beginning(&[]), command(3, &[0; 16])].concat();
    let file = File {
        writes: vec![(0, advised)],
        at: 0,
    };
    assert_eq!(file.read(), Err(Fault::PostCopyOfFile));
    let many = vec![&b"x"[..]; 257];
    assert_eq!(begun(&many).0.read(), Err(Fault::Capabilities(257)));
}

proptest! {
    #[test]
    fn writes_anywhere_place_nothing_outside_of_a_block(
        writes in prop::collection::vec(
            (0..5_u64 << 20, any::<bool>(), prop::collection::vec(any::<u8>(), 0..40), 0..3_usize), 0..20,
        ),
    ) {
        let (mut file, _) = begun(&[]);
        for (at, is_aligned, bytes, pages) in writes {
            let at = if is_aligned { at / PAGE_BYTES * PAGE_BYTES } else { at };
            let bytes = if pages > 0 { vec![1; pages * 4096] } else { bytes };
            file = file.write(at, bytes);
        }
        if let Ok(out) = file.read() {
            for page in out.pages {
                prop_assert!(page.offset + PAGE_BYTES <= PAGES * PAGE_BYTES);
            }
        }
    }
}
