//! What waits to be sent to the other relay, in order: messages, and pages that are to be placed.
//!
//! ```text
//!   page, page, page ──► one run ──┐
//!   bytes, bytes ──► one message ──┴──► as the connection has room
//! ```
//!
//! The order ensures that the destination's memory is complete when its QEMU reads that it is: a message behind a run
//! arrives behind it. One piece of the stream is read at a time, which bounds what waits.

use std::collections::VecDeque;

use crate::message::{Message, PAYLOAD_BYTES_MAX};
use crate::stream::{PAGE_BYTES, Page, Sink};

/// The longest run, short enough that a few fit into the bytes under way.
pub(crate) const RUN_BYTES_MAX: u64 = 1 << 20;

/// Adjacent pages of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) block: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// An entry of the queue.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Item {
    Message(Message),
    Run(Run),
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    items: VecDeque<Item>,
    /// Pages that were placed, including pages of zeros.
    pub(crate) pages: u64,
    /// Bytes that were forwarded.
    pub(crate) forwarded: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, message: Message) {
        self.items.push_back(Item::Message(message));
    }

    pub(crate) fn front(&self) -> Option<&Item> {
        self.items.front()
    }

    /// The runs at the front, at most `most`.
    pub(crate) fn runs(&self, most: usize) -> impl Iterator<Item = Run> {
        let runs = self.items.iter().map_while(|item| match item {
            Item::Run(run) => Some(*run),
            Item::Message(_) => None,
        });
        runs.take(most)
    }

    /// Removes entries that were taken from the front.
    pub(crate) fn remove(&mut self, count: usize) {
        self.items.drain(..count);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Sink for Queue {
    fn forward(&mut self, mut bytes: &[u8]) {
        self.forwarded += bytes.len() as u64;
        if let Some(Item::Message(Message::Bytes(last))) = self.items.back_mut() {
            let room = PAYLOAD_BYTES_MAX.saturating_sub(last.len());
            let (now, later) = bytes.split_at(bytes.len().min(room));
            last.extend_from_slice(now);
            bytes = later;
        }
        for piece in bytes.chunks(PAYLOAD_BYTES_MAX) {
            self.push(Message::Bytes(piece.to_vec()));
        }
    }

    fn page(&mut self, page: Page) {
        self.pages += 1;
        if let Some(Item::Run(run)) = self.items.back_mut()
            && run.block == page.block
            && run.offset + run.bytes == page.offset
            && run.bytes < RUN_BYTES_MAX
        {
            run.bytes += PAGE_BYTES;
            return;
        }
        self.items.push_back(Item::Run(Run {
            block: page.block,
            offset: page.offset,
            bytes: PAGE_BYTES,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(block: usize, number: u64) -> Page {
        Page {
            block,
            offset: number * PAGE_BYTES,
            is_zero: false,
        }
    }

    #[test]
    fn neighbours_are_one_run_and_messages_keep_their_place() {
        let mut queue = Queue::default();
        queue.page(page(0, 1));
        queue.page(page(0, 2));
        queue.page(page(1, 3));
        queue.forward(b"a");
        queue.forward(b"b");
        queue.page(page(1, 4));
        let run = |block, number: u64, pages: u64| Run {
            block,
            offset: number * PAGE_BYTES,
            bytes: pages * PAGE_BYTES,
        };
        assert_eq!(
            queue.runs(9).collect::<Vec<_>>(),
            [run(0, 1, 2), run(1, 3, 1)]
        );
        queue.remove(2);
        assert_eq!(
            queue.front(),
            Some(&Item::Message(Message::Bytes(b"ab".to_vec())))
        );
        queue.remove(1);
        assert_eq!(queue.runs(9).collect::<Vec<_>>(), [run(1, 4, 1)]);
    }

    #[test]
    fn runs_and_messages_have_a_longest() {
        let mut queue = Queue::default();
        let pages = RUN_BYTES_MAX / PAGE_BYTES;
        (0..=pages).for_each(|number| queue.page(page(0, number)));
        assert_eq!(
            queue.runs(9).map(|run| run.bytes).collect::<Vec<_>>(),
            [RUN_BYTES_MAX, PAGE_BYTES]
        );
        queue.remove(2);
        queue.forward(&vec![7; PAYLOAD_BYTES_MAX + 1]);
        queue.forward(&[8]);
        queue.remove(1);
        assert_eq!(
            queue.front(),
            Some(&Item::Message(Message::Bytes(vec![7, 8])))
        );
    }
}
