//! The records that an earlier service has left.

use std::os::fd::RawFd;

use prost::Message;
use vrdma_keep::{Inherited, Record, Records, SlotId};

use super::record;
use super::recorder::Kind;

/// A record and its place.
#[derive(Debug)]
pub(super) struct Noted<T> {
    pub(super) slot: SlotId,
    pub(super) record: T,
}

/// The records that an earlier service has left.
#[derive(Debug)]
pub struct Past {
    pub(super) clients: Vec<Noted<record::Client>>,
    pub(super) answers: Vec<Noted<record::Answer>>,
    pub(super) channels: Vec<Noted<record::Channel>>,
    pub(super) events: Vec<Noted<record::Event>>,
    pub(super) groups: Vec<Noted<record::Group>>,
    pub(super) identifiers: Vec<Noted<record::Identifier>>,
    pub(super) offers: Vec<Noted<record::Offer>>,
    pub(super) connections: Vec<Noted<record::Connection>>,
    pub(super) datagrams: Vec<Noted<record::Datagram>>,
    pub(super) inherited: Inherited,
}

impl Past {
    /// Reads the records that were found in an area. Unreadable ones are removed.
    pub fn new(found: &[Record], records: &Records) -> Self {
        let mut past = Self {
            clients: Vec::new(),
            answers: Vec::new(),
            channels: Vec::new(),
            events: Vec::new(),
            groups: Vec::new(),
            identifiers: Vec::new(),
            offers: Vec::new(),
            connections: Vec::new(),
            datagrams: Vec::new(),
            inherited: Inherited::none(),
        };
        for record in found {
            if past.note(record).is_none() {
                records.remove(record.slot);
            }
        }
        records.commit();
        past.events.sort_by_key(|noted| noted.record.number);
        past.datagrams.sort_by_key(|noted| noted.record.number);
        past
    }

    fn note(&mut self, found: &Record) -> Option<()> {
        match Kind::from_number(found.kind)? {
            Kind::Client => note(&mut self.clients, found),
            Kind::Answer => note(&mut self.answers, found),
            Kind::Channel => note(&mut self.channels, found),
            Kind::Event => note(&mut self.events, found),
            Kind::Group => note(&mut self.groups, found),
            Kind::Identifier => note(&mut self.identifiers, found),
            Kind::Offer => note(&mut self.offers, found),
            Kind::Connection => note(&mut self.connections, found),
            Kind::Datagram => note(&mut self.datagrams, found),
        }
    }

    /// The numbers of all descriptors that the records name.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let sockets = self.clients.iter().map(|noted| noted.record.socket);
        let pipes = self.channels.iter().map(|noted| noted.record.pipe);
        let answers = self.answers.iter();
        let with_answers = answers.flat_map(|noted| noted.record.descriptors.iter().copied());
        sockets.chain(pipes).chain(with_answers).collect()
    }

    /// Takes the descriptors that the records name from all that are open.
    pub fn claim(&mut self, inherited: &mut Inherited) {
        self.inherited = inherited.split(self.descriptors());
    }
}

fn note<T: Message + Default>(all: &mut Vec<Noted<T>>, found: &Record) -> Option<()> {
    let record = T::decode(&*found.bytes).ok()?;
    let slot = found.slot;
    all.push(Noted { slot, record });
    Some(())
}
