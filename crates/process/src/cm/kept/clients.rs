//! A client's objects, restored from records.

use std::os::fd::OwnedFd;

use vrdma_provider::cm::Event;

use super::super::changes::Item;
use super::super::channel::Channel;
use super::super::client::{CHANNELS_MAX, Client};
use super::super::identifier::Identifier;
use super::super::multicast::Group;
use crate::quota::Kind;

impl Client {
    /// Marks all numbers up to `last` as given.
    pub(super) fn resume(&mut self, last: u64) {
        self.last = last;
        self.changes.begin();
    }

    /// Whether the client was given that number.
    fn has_given(&self, number: u64) -> bool {
        number > 0 && number <= self.last
    }

    pub(super) fn resume_channel(&mut self, number: u64, pipe: OwnedFd) -> Option<()> {
        let is_new = !self.channels.contains_key(&number) && self.channels.len() < CHANNELS_MAX;
        (is_new && self.has_given(number)).then_some(())?;
        self.channels.insert(number, Channel::resume(pipe)?);
        self.holdings.take(Kind::Descriptor, 1);
        Some(())
    }

    pub(super) fn resume_identifier(&mut self, id: u64, identifier: Identifier) -> Option<()> {
        let is_new = !self.identifiers.contains_key(&id) && self.has_given(id);
        is_new.then_some(())?;
        self.channels.get_mut(&identifier.channel)?.identifiers += 1;
        self.identifiers.insert(id, identifier);
        self.holdings.take(Kind::Identifier, 1);
        Some(())
    }

    pub(super) fn resume_group(&mut self, group: u64, id: u64) -> Option<()> {
        let is_new = !self.groups.contains_key(&group) && self.has_given(group);
        (is_new && self.identifiers.contains_key(&id)).then_some(())?;
        self.join(group, Group { id });
        Some(())
    }

    /// Events are resumed in the order of their numbers.
    pub(super) fn resume_event(&mut self, channel: u64, number: u64, event: Event) -> Option<()> {
        let is_known = self.identifiers.contains_key(&event.id) && self.has_given(number);
        let channel = self.channels.get_mut(&channel).filter(|_| is_known)?;
        channel.resume_event(number, event);
        self.holdings.take(Kind::Event, 1);
        Some(())
    }

    /// Marks all of the client's objects to be written.
    pub(super) fn note_all(&mut self) {
        self.changes.note(Item::Itself);
        self.changes.note(Item::Answer);
        for (channel, events) in &self.channels {
            self.changes.note(Item::Channel(*channel));
            for number in events.numbers() {
                self.changes.note(Item::Event {
                    channel: *channel,
                    number,
                });
            }
        }
        for group in self.groups.keys() {
            self.changes.note(Item::Group(*group));
        }
        for id in self.identifiers.keys() {
            self.changes.note(Item::Identifier(*id));
        }
    }

    /// Announces the events that are not announced. In the channel `asked` the program has read one announcement and
    /// asks for its event.
    pub(super) fn announce_again(&mut self, asked: Option<u64>) {
        for (number, channel) in &mut self.channels {
            channel.announce_again(usize::from(asked == Some(*number)));
            self.owing.insert(*number);
        }
    }
}
