//! What the source's QEMU writes into its migration, in reads of any size: no page is placed outside of its block, and
//! nothing but placed pages leaves the stream.

use vrdma_relay::stream::{Block, PAGE_BYTES, Page, Sink, Stream};

use crate::input::Input;

/// Pages of the block that is placed.
const PAGES: u64 = 16;

/// Bytes that a page's header may be longer where it is forwarded: the name of its block, which the page before had.
const NAME_BYTES_MAX: usize = 256;

/// A page's header is no shorter.
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

/// Runs an input: blocks that arrive one after the other.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut stream = Stream::new(vec![Block {
        name: b"ram".to_vec(),
        bytes: PAGES * PAGE_BYTES,
        page_bytes: PAGE_BYTES,
    }]);
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
