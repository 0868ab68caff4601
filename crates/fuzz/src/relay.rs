//! The stream of a migration as the source's QEMU writes it, in reads of any size, or into a file, at any offset: no
//! page is placed outside of its block, and nothing but placed pages leaves the stream.

use vrdma_relay::stream::{Block, PAGE_BYTES, Page, Sink, Stream};

use crate::input::Input;

/// Pages of the block that is placed.
const PAGES: u64 = 16;

/// Bytes that a page's header may grow when it is forwarded: by the name of its block, which the previous page had.
const NAME_BYTES_MAX: usize = 256;

/// Range of the offsets of writes into a file.
const OFFSETS: u64 = 4 << 20;

/// Smallest length of a page's header.
const HEADER_BYTES: usize = 8;

#[derive(Default)]
struct Out {
    forwarded: usize,
    pages: usize,
}

impl Sink for Out {
    fn forward(&mut self, bytes: &[u8]) {
        self.forwarded += bytes.len();
    }

    fn page(&mut self, page: Page) {
        assert_eq!(page.block, 0, "there is one block");
        assert!(page.offset <= (PAGES - 1) * PAGE_BYTES, "the page is in it");
        assert_eq!(page.offset % PAGE_BYTES, 0, "it is a page");
        self.pages += 1;
    }
}

/// The block that is placed.
fn placed() -> Vec<Block> {
    vec![Block {
        name: b"ram".to_vec(),
        bytes: PAGES * PAGE_BYTES,
        page_bytes: PAGE_BYTES,
    }]
}

/// Runs an input: blocks that arrive one after the other, or are written at offsets.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.byte() % 2 {
        0 => read(&mut input),
        _ => write(&mut input),
    }
}

/// Writes into a file. Offsets are in the first MiBs, where blocks fit.
fn write(input: &mut Input<'_>) {
    let mut stream = Stream::of_file(placed());
    let mut out = Out::default();
    let mut came = 0;
    let mut at = 0;
    while !input.is_empty() {
        // The write continues the previous one, or is elsewhere, half of the time at a page.
        match input.byte() % 4 {
            0 => at = u64::from(input.word()) % OFFSETS,
            1 => at = u64::from(input.word()) % OFFSETS / PAGE_BYTES * PAGE_BYTES,
            _ => {}
        }
        let piece = match input.byte() % 4 {
            0 => &[1; PAGE_BYTES as usize],
            _ => input.block(),
        };
        if stream.write(at, piece, &mut out).is_err() {
            return;
        }
        at += piece.len() as u64;
        came += piece.len();
        assert!(out.pages <= came / HEADER_BYTES);
        let most = came + came / HEADER_BYTES * NAME_BYTES_MAX;
        assert!(out.forwarded <= most, "nothing is made up");
    }
}

fn read(input: &mut Input<'_>) {
    let mut stream = Stream::new(placed());
    let mut out = Out::default();
    let mut came = 0;
    while !input.is_empty() {
        let mut piece = input.block();
        loop {
            let was_through = stream.is_through();
            let Ok(fed) = stream.feed(piece, &mut out) else {
                return;
            };
            assert!(fed.mark.is_some() || fed.taken == piece.len());
            assert!(
                !was_through || fed.mark.is_none(),
                "there is nothing behind it"
            );
            came += fed.taken;
            piece = &piece[fed.taken..];
            if fed.mark.is_none() {
                break;
            }
        }
        let most = came + came / HEADER_BYTES * NAME_BYTES_MAX;
        assert!(out.forwarded <= most, "nothing is made up");
        assert!(out.pages <= came / HEADER_BYTES);
    }
}
