//! The machine as a whole: who gets a datagram, and what is due.

use alloc::collections::VecDeque;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use vrdma_wire::cm::{CmMad, CommId, Message, Mra};
use vrdma_wire::{Format, MAD_LEN, Pkey, Qpn};

use crate::connection::State;
use crate::event::Event;
use crate::listeners::{Listen, ListenerId, Listeners};
use crate::sidr::Sidr;
use crate::store::Store;
use crate::terms::{Ends, Refused};

/// Who this side is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Node GUID of the adapter.
    pub guid: u64,
    /// A random number, of which names are made: those of an adapter that was started again are not those
    /// that peers remember, and nobody who sees some knows others.
    pub seed: u64,
}

/// A datagram to be sent from QP 1 to QP 1, with the key of the GSI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// From where to where.
    pub ends: Ends,
    /// What it says.
    pub mad: CmMad,
}

impl Outgoing {
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; MAD_LEN] {
        let mut bytes = [0; MAD_LEN];
        self.mad.emit(&mut bytes);
        bytes
    }
}

/// A datagram that QP 1 has received.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Where it came to and from.
    pub ends: Ends,
    /// Queue pair that sent it.
    pub qpn: Qpn,
    /// Its partition key.
    pub pkey: Pkey,
    /// The datagram.
    pub bytes: &'a [u8],
}

/// Calls from elsewhere that came to no connection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Calls {
    /// Those that wait to be answered, or for their caller.
    pub half_open: usize,
    /// Those that were refused for want of room, since the manager was made.
    pub refused: u64,
}

/// The communication manager of one adapter. Commands and [`Cm::receive`] leave datagrams and events
/// behind; the caller takes them all before it goes on. Times are those since any fixed moment.
pub struct Cm {
    pub(crate) guid: u64,
    pub(crate) store: Store,
    pub(crate) listeners: Listeners,
    pub(crate) sidr: Sidr,
    pub(crate) outgoing: VecDeque<Outgoing>,
    /// How many datagrams were given to be sent.
    pub(crate) sent: u64,
    /// Calls for which there was no room.
    pub(crate) refused: u64,
    pub(crate) events: VecDeque<Event>,
    names: ChaCha8Rng,
}

impl Cm {
    /// A manager without connections.
    pub fn new(identity: Identity) -> Self {
        Self {
            guid: identity.guid,
            store: Store::default(),
            listeners: Listeners::default(),
            sidr: Sidr::default(),
            outgoing: VecDeque::new(),
            sent: 0,
            refused: 0,
            events: VecDeque::new(),
            names: ChaCha8Rng::seed_from_u64(identity.seed),
        }
    }

    /// Listens for calls and for questions, of which at most `backlog` (1 to
    /// [`MAX_BACKLOG`](crate::MAX_BACKLOG)) wait for an answer.
    ///
    /// # Errors
    /// [`Refused::Taken`] and [`Refused::Full`].
    pub fn listen(&mut self, at: Listen, backlog: u32) -> Result<ListenerId, Refused> {
        self.listeners.add(at, backlog)
    }

    /// Stops to listen. What waits for an answer stays until it is answered or released.
    ///
    /// # Errors
    /// [`Refused::Unknown`].
    pub fn unlisten(&mut self, listener: ListenerId) -> Result<(), Refused> {
        self.listeners.remove(listener)
    }

    /// Calls that are no connections.
    pub fn calls(&self) -> Calls {
        Calls {
            half_open: self.store.half_open(),
            refused: self.refused,
        }
    }

    /// A datagram to be sent.
    pub fn next_outgoing(&mut self) -> Option<Outgoing> {
        let outgoing = self.outgoing.pop_front();
        self.sent += u64::from(outgoing.is_some());
        outgoing
    }

    /// An event for the owner.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Cm::expire`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines = [self.store.next_deadline(), self.sidr.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Repeats what was not answered in time, and gives up what was repeated often enough.
    pub fn expire(&mut self, now: Duration) {
        while let Some(id) = self.store.pop_due(now) {
            self.overdue(id, now);
        }
        self.expire_questions(now);
    }

    /// Takes a datagram; `false` if it is none that the manager knows.
    pub fn receive(&mut self, received: &Received<'_>, now: Duration) -> bool {
        if received.qpn != Qpn::GSI || !received.pkey.matches(Pkey::DEFAULT) {
            return false;
        }
        let Ok(mad) = CmMad::parse(received.bytes) else {
            return false;
        };
        let ends = received.ends;
        match mad.message {
            Message::Req(req) => self.on_req(ends, mad.transaction, &req, now),
            Message::Mra(mra) => self.on_mra(ends, &mra, now),
            Message::Rej(rej) => self.on_rej(ends, &rej, now),
            Message::Rep(rep) => self.on_rep(ends, mad.transaction, &rep),
            Message::Rtu(rtu) => self.on_rtu(ends, &rtu),
            Message::Dreq(dreq) => self.on_dreq(ends, mad.transaction, &dreq, now),
            Message::Drep(drep) => self.on_drep(ends, &drep, now),
            Message::SidrReq(req) => self.on_sidr_req(ends, mad.transaction, &req),
            Message::SidrRep(rep) => self.on_sidr_rep(ends, &rep),
        }
        true
    }

    fn on_mra(&mut self, ends: Ends, mra: &Mra, now: Duration) {
        let Some(connection) = self.store.get(mra.remote) else {
            return;
        };
        let waits = matches!(connection.state, State::ReqSent | State::RepSent);
        if waits && connection.ends.remote == ends.remote {
            let until = connection.overdue_at(now, Some(mra.service_timeout));
            self.store.set_deadline(mra.remote, Some(until));
        }
    }

    /// A connection has waited long enough.
    fn overdue(&mut self, id: CommId, now: Duration) {
        let Some(connection) = self.store.get_mut(id) else {
            return;
        };
        if connection.state == State::TimeWait {
            return self.forget(id, Event::TimewaitOver(id));
        }
        if connection.retries == 0 || connection.is_too_late(now) {
            return self.give_up(id, now);
        }
        connection.retries -= 1;
        let until = connection.overdue_at(now, None);
        self.store.set_deadline(id, Some(until));
        self.repeat(id);
    }

    fn give_up(&mut self, id: CommId, now: Duration) {
        let Some(connection) = self.store.get(id) else {
            return;
        };
        if connection.state == State::DreqSent {
            return self.end(id, now);
        }
        let farewell = connection.gave_up(self.guid);
        self.say(id, farewell);
        self.forget(id, Event::Unreachable(id));
    }

    /// A name that no connection and no question has.
    pub(crate) fn new_name(&mut self) -> Result<CommId, Refused> {
        if self.store.is_full() || self.sidr.is_full() {
            return Err(Refused::Full);
        }
        loop {
            let id = CommId(self.names.next_u32());
            if id.0 != 0 && !self.store.contains(id) && !self.sidr.contains(id) {
                return Ok(id);
            }
        }
    }

    pub(crate) fn send(&mut self, ends: Ends, transaction: u64, message: Message) {
        let mad = CmMad {
            transaction,
            message,
        };
        self.outgoing.push_back(Outgoing { ends, mad });
    }

    /// Sends a message of a connection, once.
    pub(crate) fn say(&mut self, id: CommId, message: Message) {
        if let Some(connection) = self.store.get(id) {
            let (ends, transaction) = (connection.ends, connection.transaction);
            self.send(ends, transaction, message);
        }
    }

    /// Sends a message of a connection that may have to be repeated.
    pub(crate) fn say_and_keep(&mut self, id: CommId, message: Message) {
        if let Some(connection) = self.store.get_mut(id) {
            connection.last = Some(message);
        }
        self.say(id, message);
    }

    /// Sends once more what was sent last.
    pub(crate) fn repeat(&mut self, id: CommId) {
        if let Some(message) = self.store.get(id).and_then(|connection| connection.last) {
            self.say(id, message);
        }
    }

    /// Tells the owner, unless the connection is nobody's.
    pub(crate) fn tell(&mut self, id: CommId, event: Event) {
        if self
            .store
            .get(id)
            .is_some_and(|connection| connection.owned)
        {
            self.events.push_back(event);
        }
    }

    /// Removes a connection, with a last event.
    pub(crate) fn forget(&mut self, id: CommId, event: Event) {
        self.tell(id, event);
        self.drop_connection(id);
    }

    pub(crate) fn drop_connection(&mut self, id: CommId) {
        let waited_for = self.store.remove(id).and_then(|gone| gone.listener);
        if let Some(listener) = waited_for {
            self.listeners.answered(listener);
        }
    }
}
