//! Streams as QEMU 11.1.3 writes them, cut anywhere, and streams that it does not write.

mod of_file;

use proptest::prelude::*;

use super::*;

/// The placed block.
const OURS: &[u8] = b"ram";
const PAGES: u64 = 16;

#[derive(Default, PartialEq, Eq, Debug)]
struct Out {
    forwarded: Vec<u8>,
    pages: Vec<Page>,
    marks: Vec<Mark>,
    /// Bytes that had been forwarded when each page came.
    behind: Vec<usize>,
}

impl Sink for Out {
    fn forward(&mut self, bytes: &[u8]) {
        self.forwarded.extend_from_slice(bytes);
    }

    fn page(&mut self, page: Page) {
        self.pages.push(page);
        self.behind.push(self.forwarded.len());
    }
}

fn stream() -> Stream {
    Stream::new(vec![Block {
        name: OURS.to_vec(),
        bytes: PAGES * PAGE_BYTES,
        page_bytes: PAGE_BYTES,
    }])
}

/// Reads a stream in pieces, as QEMU's socket gives them.
fn read(bytes: &[u8], cuts: &[usize]) -> Result<Out, Fault> {
    let mut stream = stream();
    let mut out = Out::default();
    let mut from = 0;
    let ends = cuts.iter().copied().chain([bytes.len()]);
    for end in ends.filter(|end| *end <= bytes.len()) {
        while from < end {
            let fed = stream.feed(&bytes[from..end], &mut out)?;
            assert!(fed.taken > 0 || fed.mark.is_some(), "it goes on");
            assert!(stream.held.len() <= 70_000, "what is held is bounded");
            out.marks.extend(fed.mark);
            from += fed.taken;
        }
    }
    Ok(out)
}

fn named(name: &[u8]) -> Vec<u8> {
    [&[name.len() as u8], name].concat()
}

fn word(value: u32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn page_word(number: u64, flags: u64) -> Vec<u8> {
    ((number * PAGE_BYTES) | flags).to_be_bytes().to_vec()
}

/// Magic and configuration, with the capabilities and the UUID that QEMU adds.
fn beginning(capabilities: &[&[u8]]) -> Vec<u8> {
    let mut all = b"QEVM\0\0\0\x03\x07".to_vec();
    all.extend([word(3), b"q35".to_vec()].concat());
    let count = capabilities.len() as u32;
    all.extend(
        [
            vec![5],
            named(b"configuration/capabilities"),
            word(1),
            word(count),
        ]
        .concat(),
    );
    capabilities.iter().for_each(|it| all.extend(named(it)));
    all.extend([vec![5], named(b"configuration/uuid"), word(1), vec![7; 16]].concat());
    all
}

fn command(number: u16, body: &[u8]) -> Vec<u8> {
    let head = [number.to_be_bytes(), (body.len() as u16).to_be_bytes()].concat();
    [&[8][..], &head, body].concat()
}

/// The memory's section, with the placed block and another one.
fn memory() -> Vec<u8> {
    let mut all = [vec![1], word(2), named(b"ram"), word(0), word(4)].concat();
    let other = 4;
    all.extend(page_word(PAGES + other, 4));
    for (name, pages) in [(OURS, PAGES), (b"bios", other)] {
        all.extend([named(name), (pages * PAGE_BYTES).to_be_bytes().to_vec()].concat());
    }
    all.extend([page_word(0, 16), footer()].concat());
    all
}

fn footer() -> Vec<u8> {
    [vec![0x7e], word(2)].concat()
}

fn part(kind: u8, pages: &[Vec<u8>]) -> Vec<u8> {
    let head = [vec![kind], word(2)].concat();
    [&head[..], &pages.concat(), &page_word(0, 16), &footer()].concat()
}

fn whole_page(number: u64, name: Option<&[u8]>) -> Vec<u8> {
    let same = if name.is_some() { 0 } else { 0x20 };
    let name = name.map(named).unwrap_or_default();
    [page_word(number, 8 | same), name, vec![number as u8; 4096]].concat()
}

fn zero_page(number: u64, name: Option<&[u8]>) -> Vec<u8> {
    let same = if name.is_some() { 0 } else { 0x20 };
    [
        page_word(number, 2 | same),
        name.map(named).unwrap_or_default(),
        vec![0],
    ]
    .concat()
}

/// The devices' state: arbitrary bytes for the reader.
fn devices() -> Vec<u8> {
    [
        vec![4],
        word(9),
        named(b"timer"),
        word(0),
        word(2),
        vec![8, 0, 3, 255],
        vec![0],
    ]
    .concat()
}

/// A migration without post-copy, and the part of it that is forwarded.
fn whole() -> (Vec<u8>, Vec<u8>) {
    let head = [beginning(&[b"x"]), command(1, &[]), memory()].concat();
    let delta = [page_word(5, 0x40), named(OURS), vec![1, 0, 3, 9, 9, 9]].concat();
    let pages = [
        whole_page(0, Some(OURS)),
        whole_page(1, None),
        zero_page(3, None),
        whole_page(2, Some(b"bios")),
        zero_page(3, None),
        delta,
    ];
    let stays = [page_word(2, 8), named(b"bios"), vec![2; 4096]].concat();
    let stays_zero = [page_word(3, 2), named(b"bios"), vec![0]].concat();
    let last = [whole_page(15, Some(OURS))];
    let came = [&head[..], &part(2, &pages), &part(3, &last), &devices()].concat();
    let left = [
        &head[..],
        &part(2, &[stays, stays_zero]),
        &part(3, &[]),
        &devices(),
    ]
    .concat();
    (came, left)
}

fn ours(number: u64, is_zero: bool) -> Page {
    Page {
        block: 0,
        offset: number * PAGE_BYTES,
        is_zero,
    }
}

#[test]
fn pages_of_ours_leave_the_stream_and_all_else_stays() {
    let (came, left) = whole();
    let out = read(&came, &[]).unwrap();
    assert_eq!(out.forwarded, left);
    let expected = [
        ours(0, false),
        ours(1, false),
        ours(3, true),
        ours(5, false),
        ours(15, false),
    ];
    assert_eq!(out.pages, expected);
    assert_eq!(out.marks, [Mark::Through]);
}

#[test]
fn the_last_page_comes_before_the_end_of_the_memory_is_forwarded() {
    let (came, left) = whole();
    let out = read(&came, &[]).unwrap();
    let end = left.len() - devices().len() - footer().len();
    assert!(*out.behind.last().unwrap() <= end - 8, "EOS is behind it");
}

#[test]
fn pieces_of_any_length_make_the_same() {
    let (came, _) = whole();
    let expected = read(&came, &[]).unwrap();
    let each: Vec<usize> = (0..came.len()).collect();
    assert_eq!(read(&came, &each).unwrap(), expected);
    for cut in 0..came.len() {
        assert_eq!(read(&came, &[cut]).unwrap(), expected, "cut at {cut}");
    }
}

#[test]
fn post_copy_is_waited_for_and_then_all_is_forwarded() {
    let advised = [beginning(&[]), command(3, &[0; 16])].concat();
    let pages = part(2, &[whole_page(1, Some(OURS))]);
    let discard = [
        command(6, b"what is to be discarded"),
        whole_page(2, Some(OURS)),
    ]
    .concat();
    let came = [&advised[..], &memory(), &pages, &discard].concat();
    let out = read(&came, &[]).unwrap();
    assert_eq!(out.marks, [Mark::Advised, Mark::Through]);
    assert_eq!(out.pages, [ours(1, false)]);
    assert!(out.forwarded.ends_with(&discard));
    let mut stream = stream();
    let mut sink = Out::default();
    let fed = stream.feed(&came, &mut sink).unwrap();
    assert_eq!((fed.taken, sink.forwarded), (advised.len(), advised));
}

#[test]
fn post_copy_of_other_things_than_memory_is_not_waited_for() {
    let pages = part(2, &[whole_page(1, Some(OURS))]);
    let came = [beginning(&[]), command(3, &[]), memory(), pages].concat();
    let out = read(&came, &[]).unwrap();
    assert_eq!((out.marks.len(), out.pages.len()), (0, 1));
}

#[test]
fn blocks_of_large_pages_tell_their_size_in_post_copy() {
    let mut stream = Stream::new(vec![Block {
        name: OURS.to_vec(),
        bytes: 2 << 20,
        page_bytes: 2 << 20,
    }]);
    let list = [
        vec![1],
        word(2),
        named(b"ram"),
        word(0),
        word(4),
        ((2_u64 << 20) | 4).to_be_bytes().to_vec(),
        named(OURS),
        (2_u64 << 20).to_be_bytes().to_vec(),
        (2_u64 << 20).to_be_bytes().to_vec(),
        page_word(0, 16),
    ]
    .concat();
    let came = [beginning(&[]), command(3, &[0; 16]), list].concat();
    let mut out = Out::default();
    let taken = stream.feed(&came, &mut out).unwrap().taken;
    stream.feed(&came[taken..], &mut out).unwrap();
    assert_eq!(out.forwarded, came);
}

#[test]
fn what_cannot_be_placed_is_named() {
    let after = |rest: Vec<u8>| read(&[beginning(&[]), memory(), rest].concat(), &[]).unwrap_err();
    let dirty = [vec![1], word(3), named(b"dirty-bitmap"), word(0), word(1)].concat();
    let said = after(dirty).to_string();
    assert!(said.contains("\"dirty-bitmap\" comes beside"), "{said}");
    assert_eq!(after(vec![0x55]), Fault::UnknownKind(0x55));
    assert_eq!(after([vec![2], word(9)].concat()), Fault::UnknownNumber(9));
    assert_eq!(after(memory()), Fault::TwoMemories);
    let early = Fault::EarlyState("timer".to_owned());
    assert_eq!(after(devices()), early);
    let page = |page: Vec<u8>| after(part(2, &[page]));
    assert_eq!(page(whole_page(0, None)), Fault::NoBlock);
    assert_eq!(page(page_word(0, 0x200)), Fault::PageFlags(0x200));
    assert_eq!(page(page_word(0, 0x0a)), Fault::PageFlags(0x0a));
    let beyond = Fault::OutOfBlock {
        block: "ram".to_owned(),
        offset: PAGES * PAGE_BYTES,
    };
    assert_eq!(page(whole_page(PAGES, Some(OURS))), beyond);
    let filled = [page_word(0, 2), named(OURS), vec![0xff]].concat();
    assert_eq!(page(filled), Fault::Fill(0xff));
    let long = [page_word(0, 0x40), named(OURS), vec![1, 0x10, 1]].concat();
    assert_eq!(page(long), Fault::Encoded(4097));
}

#[test]
fn another_kind_of_stream_is_refused_at_its_beginning() {
    assert_eq!(read(b"QEVM\0\0\0\x04", &[]), Err(Fault::NotAStream));
    let shared = beginning(&[b"x-ignore-shared"]);
    assert_eq!(
        read(&shared, &[]),
        Err(Fault::Capability("x-ignore-shared".to_owned()))
    );
    let detail = [
        &beginning(&[])[..],
        &[5],
        &named(b"configuration/new"),
        &word(1),
    ]
    .concat();
    assert_eq!(
        read(&detail, &[]),
        Err(Fault::UnknownDetail("configuration/new".to_owned()))
    );
    let old = [vec![1], word(2), named(b"ram"), word(0), word(3)].concat();
    let old = [beginning(&[]), old].concat();
    assert_eq!(read(&old, &[]), Err(Fault::MemoryVersion(3)));
    let list = |total: u64, bytes: u64| {
        let begin = [vec![1], word(2), named(b"ram"), word(0), word(4)].concat();
        let list = [
            page_word(total, 4),
            named(OURS),
            bytes.to_be_bytes().to_vec(),
        ]
        .concat();
        read(&[beginning(&[]), begin, list].concat(), &[])
    };
    let short = Fault::BlockLength {
        block: "ram".to_owned(),
        bytes: PAGE_BYTES,
        expected: PAGES * PAGE_BYTES,
    };
    assert_eq!(list(PAGES, PAGE_BYTES), Err(short));
    assert_eq!(list(PAGES - 1, PAGES * PAGE_BYTES), Err(Fault::Blocks));
}

/// A part of a stream, right or wrong.
fn section() -> impl Strategy<Value = Vec<u8>> {
    let number = 0..PAGES + 2;
    let name = prop_oneof![Just(None), Just(Some(OURS)), Just(Some(&b"bios"[..]))];
    let page = (number, name, any::<bool>()).prop_map(|(number, name, is_zero)| match is_zero {
        true => zero_page(number, name),
        false => whole_page(number, name),
    });
    prop_oneof![
        4 => prop::collection::vec(page, 0..6).prop_map(|pages| part(2, &pages)),
        1 => Just(part(3, &[])),
        1 => Just(memory()),
        1 => Just(command(3, &[0; 16])),
        1 => (0..12_u16, prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(number, body)| command(number, &body)),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #[test]
    fn any_stream_reads_the_same_in_any_pieces(
        sections in prop::collection::vec(section(), 0..8),
        cuts in prop::collection::vec(0..20_000_usize, 0..12),
    ) {
        let all = [beginning(&[]), memory(), sections.concat()].concat();
        let mut cuts = cuts;
        cuts.sort_unstable();
        prop_assert_eq!(read(&all, &cuts), read(&all, &[]));
    }

    #[test]
    fn every_page_is_within_its_block(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        let all = [beginning(&[]), memory(), vec![2], word(2), bytes].concat();
        let mut out = Out::default();
        let _ = stream().feed(&all, &mut out);
        for page in out.pages {
            prop_assert!(page.offset + PAGE_BYTES <= PAGES * PAGE_BYTES);
        }
    }
}
