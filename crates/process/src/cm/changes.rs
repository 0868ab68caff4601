//! What happened to a client's things since they were written down.

use std::collections::BTreeSet;

use super::channel::Channel;

/// A thing of a client that has a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Item {
    /// The client.
    Itself,
    /// The answer that it was given last.
    Answer,
    /// A channel.
    Channel(u64),
    /// An event in a channel.
    Event { channel: u64, number: u64 },
    /// A group that was joined.
    Group(u64),
    /// An identifier, and what it offers.
    Identifier(u64),
}

/// Nothing is remembered of a client that is not recorded.
#[derive(Default)]
pub(super) struct Changes {
    is_recorded: bool,
    items: BTreeSet<Item>,
    /// What the client gave up, until no record names its descriptor.
    discarded: Vec<Channel>,
}

impl Changes {
    /// The client is recorded from now on.
    pub(super) fn begin(&mut self) {
        self.is_recorded = true;
    }

    /// It is recorded no more.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(super) fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    pub(super) fn note(&mut self, item: Item) {
        if self.is_recorded {
            self.items.insert(item);
        }
    }

    pub(super) fn discard(&mut self, channel: Channel) {
        if self.is_recorded {
            self.discarded.push(channel);
        }
    }

    /// What is to be written down now.
    pub(super) fn take(&mut self) -> BTreeSet<Item> {
        std::mem::take(&mut self.items)
    }

    /// All is written down.
    pub(super) fn committed(&mut self) {
        self.discarded.clear();
    }
}
