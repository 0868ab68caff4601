//! A process that uses connection management.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use vrdma_provider::cm::Event;
use vrdma_provider::message::Name;

use super::adapter::Adapter;
use super::changes::{Changes, Item};
use super::channel::Channel;
use super::identifier::Identifier;
use super::multicast::Group;
use super::scope::Scope;
use crate::admission::Admission;
use crate::caller::Caller;
use crate::holdings::Holdings;
use crate::quota::Kind;
use crate::receive::ForeignFile;
use crate::session::Answered;

/// Most channels of one client: each takes two descriptors here. Synchronous identifiers and rsockets have one each.
pub(super) const CHANNELS_MAX: usize = 1024;

/// Number of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u32);

/// A client.
pub(super) struct Client {
    pub(super) socket: ForeignFile,
    pub(super) caller: Caller,
    /// The only adapter that the client wants; empty for all.
    pub(super) wants: Name,
    pub(super) channels: BTreeMap<u64, Channel>,
    pub(super) identifiers: BTreeMap<u64, Identifier>,
    pub(super) groups: BTreeMap<u64, Group>,
    pub(super) holdings: Holdings,
    /// The answer that was given last, as long as a record has it.
    pub(super) answered: Option<Answered>,
    /// Objects whose records are to be written.
    pub(super) changes: Changes,
    /// Channels with events that are not announced yet.
    pub(super) owing: BTreeSet<u64>,
    /// The number that was given last to an object.
    pub(super) last: u64,
    /// How often an identifier was looked up.
    #[cfg(test)]
    pub(super) looks: u64,
}

impl Client {
    /// Makes a client that asks for the adapter `wanted`, or for all. A caller that came by the socket of an adapter
    /// gets that one.
    pub(super) fn new(
        socket: ForeignFile,
        caller: Caller,
        wanted: Name,
        holdings: Holdings,
    ) -> Self {
        let wants = caller.only.unwrap_or(wanted);
        Self {
            socket,
            caller,
            wants,
            channels: BTreeMap::new(),
            identifiers: BTreeMap::new(),
            groups: BTreeMap::new(),
            holdings,
            answered: None,
            changes: Changes::default(),
            owing: BTreeSet::new(),
            last: 0,
            #[cfg(test)]
            looks: 0,
        }
    }

    /// Returns a number that was never given before.
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.changes.note(Item::Itself);
        self.last
    }

    /// The number that was given last.
    pub(super) fn last_number(&self) -> u64 {
        self.last
    }

    /// The adapters that the client may use now.
    pub(super) fn scope(&self, admission: &Admission) -> Scope {
        Scope {
            wants: self.wants,
            usable: admission.usable(&self.caller),
        }
    }

    /// Whether the client may use all adapters, and wants no single one.
    pub(super) fn may_use_all(&self) -> bool {
        self.wants == Name::default() && self.caller.is_ours()
    }

    pub(super) fn may_use(&self, adapter: &Adapter, admission: &Admission) -> bool {
        let wanted = self.wants == Name::default() || self.wants.as_str() == &*adapter.spec.name;
        wanted && admission.admits(adapter.spec.port, &self.caller)
    }

    pub(super) fn add_channel(&mut self) -> Result<(u64, OwnedFd), Errno> {
        if self.channels.len() >= CHANNELS_MAX {
            return Err(Errno::MFILE);
        }
        self.afford(Kind::Descriptor)?;
        let (channel, reader) = Channel::new()?;
        self.holdings.take(Kind::Descriptor, 1);
        let number = self.number();
        self.channels.insert(number, channel);
        self.changes.note(Item::Channel(number));
        Ok((number, reader))
    }

    pub(super) fn remove_channel(&mut self, number: u64) -> Result<(), Errno> {
        let channel = self.channels.get(&number).ok_or(Errno::INVAL)?;
        if channel.identifiers > 0 {
            return Err(Errno::BUSY);
        }
        let unread: Vec<u64> = channel.numbers().collect();
        self.holdings.give(Kind::Event, unread.len() as u64);
        self.holdings.give(Kind::Descriptor, 1);
        for event in unread {
            self.note_event(number, event);
        }
        self.changes.note(Item::Channel(number));
        if let Some(channel) = self.channels.remove(&number) {
            self.changes.discard(channel);
        }
        Ok(())
    }

    pub(super) fn add(&mut self, identifier: Identifier) -> Result<u64, Errno> {
        self.afford(Kind::Identifier)?;
        let channel = self.channels.get_mut(&identifier.channel);
        channel.ok_or(Errno::INVAL)?.identifiers += 1;
        let number = self.number();
        self.identifiers.insert(number, identifier);
        self.changes.note(Item::Identifier(number));
        self.holdings.take(Kind::Identifier, 1);
        Ok(number)
    }

    /// Removes an identifier.
    pub(super) fn remove(&mut self, id: u64) -> Option<Identifier> {
        let removed = self.identifiers.remove(&id)?;
        self.changes.note(Item::Identifier(id));
        self.holdings.give(Kind::Identifier, 1);
        Some(removed)
    }

    /// Checks that the quota has room for one more object of a kind.
    ///
    /// # Errors
    /// `NOMEM`: there is no room.
    pub(super) fn afford(&self, kind: Kind) -> Result<(), Errno> {
        let fits = self.holdings.asks(kind, 1);
        fits.then_some(()).ok_or(Errno::NOMEM)
    }

    /// Returns an identifier that the caller may change.
    pub(super) fn get(&mut self, id: u64) -> Result<&mut Identifier, Errno> {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        self.changes.note(Item::Identifier(id));
        self.identifiers.get_mut(&id).ok_or(Errno::INVAL)
    }

    /// Checks that the client may ask for an operation that ends with an event.
    ///
    /// # Errors
    /// `NOMEM`: the client has to read events first.
    pub(super) fn check_events(&self) -> Result<(), Errno> {
        self.afford(Kind::Event)
    }

    /// The next event of a channel.
    pub(super) fn next_event(&mut self, from: u64) -> Result<Event, Errno> {
        let channel = self.channels.get_mut(&from).ok_or(Errno::INVAL)?;
        let popped = channel.pop();
        // The pipe may have room now.
        if channel.is_in_debt() {
            self.owing.insert(from);
        }
        let (number, event) = popped.ok_or(Errno::AGAIN)?;
        self.note_event(from, number);
        self.holdings.give(Kind::Event, 1);
        Ok(event)
    }

    /// Takes out all events of an identifier that leaves its channel for good.
    pub(super) fn take_events(&mut self, id: u64, channel: u64) -> Vec<Event> {
        let taken = self.take_of(id, channel);
        self.holdings.give(Kind::Event, taken.len() as u64);
        taken
    }

    /// Counts an identifier less in a channel, and takes out its events.
    fn take_of(&mut self, id: u64, from: u64) -> Vec<Event> {
        let Some(channel) = self.channels.get_mut(&from) else {
            return Vec::new();
        };
        channel.identifiers -= 1;
        let taken = channel.take_of(id);
        for (number, _) in &taken {
            self.note_event(from, *number);
        }
        taken.into_iter().map(|(_, event)| event).collect()
    }

    fn note_event(&mut self, channel: u64, number: u64) {
        self.changes.note(Item::Event { channel, number });
    }

    /// Queues an event in a channel.
    fn queue(&mut self, to: u64, event: Event) -> bool {
        let number = self.number();
        let Some(channel) = self.channels.get_mut(&to) else {
            return false;
        };
        channel.push(number, event);
        self.owing.insert(to);
        self.note_event(to, number);
        true
    }

    /// Announces the events that were queued.
    pub(super) fn pay(&mut self) {
        for number in std::mem::take(&mut self.owing) {
            if let Some(channel) = self.channels.get_mut(&number) {
                channel.pay();
            }
        }
    }

    pub(super) fn join(&mut self, group: u64, joined: Group) {
        self.groups.insert(group, joined);
        self.changes.note(Item::Group(group));
        self.holdings.take(Kind::Group, 1);
    }

    pub(super) fn leave(&mut self, group: u64) -> Option<Group> {
        let left = self.groups.remove(&group)?;
        self.changes.note(Item::Group(group));
        self.holdings.give(Kind::Group, 1);
        Some(left)
    }

    /// Leaves all groups of an identifier.
    pub(super) fn leave_all(&mut self, id: u64) {
        let own = self.groups.iter().filter(|(_, group)| group.id == id);
        for group in own.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.leave(group);
        }
    }

    /// Takes out the event of a group, if the program has not read it.
    pub(super) fn forget_group_event(&mut self, group: u64, channel: u64) {
        let forgotten = self.channels.get_mut(&channel);
        let forgotten = forgotten.and_then(|channel| channel.forget_group(group));
        if let Some(number) = forgotten {
            self.note_event(channel, number);
            self.holdings.give(Kind::Event, 1);
        }
    }

    /// Queues an event with its identifier's route.
    pub(super) fn tell(&mut self, mut event: Event) {
        let Some(identifier) = self.identifiers.get(&event.id) else {
            return;
        };
        event.route = identifier.route;
        // A connection request is reported where its listener's events go.
        let listener = self.identifiers.get(&event.listener);
        let channel = listener.map_or(identifier.channel, |listener| listener.channel);
        if self.queue(channel, event) {
            self.holdings.take(Kind::Event, 1);
        }
    }

    pub(super) fn migrate(&mut self, id: u64, to: u64) -> Result<(), Errno> {
        let from = self.get(id)?.channel;
        if !self.channels.contains_key(&to) {
            return Err(Errno::INVAL);
        }
        let moved = self.take_of(id, from);
        if let Some(channel) = self.channels.get_mut(&to) {
            channel.identifiers += 1;
        }
        for event in moved {
            self.queue(to, event);
        }
        self.get(id)?.channel = to;
        Ok(())
    }
}
