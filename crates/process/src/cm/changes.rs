//! Changes of a client's objects since they were recorded.

use std::collections::BTreeSet;

use super::channel::Channel;

/// An object of a client that has a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Item {
    /// The client itself.
    Itself,
    /// The answer that the client was given last.
    Answer,
    /// A channel.
    Channel(u64),
    /// An event in a channel.
    Event { channel: u64, number: u64 },
    /// A group that was joined.
    Group(u64),
    /// An identifier, and its offers.
    Identifier(u64),
}

/// The changes of one client. Empty if the client is not recorded.
#[derive(Default)]
pub(super) struct Changes {
    is_recorded: bool,
    items: BTreeSet<Item>,
    /// Channels that the client gave up, kept until no record names their descriptors.
    discarded: Vec<Channel>,
}

impl Changes {
    /// Starts to collect changes: the client is recorded from now on.
    pub(super) fn begin(&mut self) {
        self.is_recorded = true;
    }

    /// Stops: the client is recorded no more.
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

    /// Takes the objects whose records are to be written now.
    pub(super) fn take(&mut self) -> BTreeSet<Item> {
        std::mem::take(&mut self.items)
    }

    /// Notes that all records are written.
    pub(super) fn committed(&mut self) {
        self.discarded.clear();
    }
}
