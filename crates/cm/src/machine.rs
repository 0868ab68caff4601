//! The machine as a whole: the receiver of each datagram, and what is due.

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

/// Identity of this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Node GUID of the adapter.
    pub guid: u64,
    /// Random number of which names are made. So an adapter that was started again has other names than those that
    /// peers remember, and a known name does not reveal others.
    pub seed: u64,
}

/// A datagram to be sent from QP 1 to QP 1, with the Q_Key of the GSI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Source and destination addresses.
    pub ends: Ends,
    /// The message.
    pub mad: CmMad,
}

impl Outgoing {
    /// Returns its bytes.
    pub fn to_bytes(&self) -> [u8; MAD_LEN] {
        let mut bytes = [0; MAD_LEN];
        self.mad.emit(&mut bytes);
        bytes
    }
}

/// A datagram that QP 1 has received.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Destination and source addresses.
    pub ends: Ends,
    /// Queue pair that sent it.
    pub qpn: Qpn,
    /// Its partition key.
    pub pkey: Pkey,
    /// The datagram.
    pub bytes: &'a [u8],
}

/// Counts of incoming calls that are no connections.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Calls {
    /// Calls that wait for an answer, or for their caller.
    pub half_open: usize,
    /// Calls that were refused for lack of room, since the manager was made.
    pub refused: u64,
}

/// The communication manager of one adapter. Commands and [`Cm::receive`] produce datagrams and events, which the
/// caller takes before it goes on. Times are those since any fixed moment.
pub struct Cm {
    pub(crate) guid: u64,
    pub(crate) store: Store,
    pub(crate) listeners: Listeners,
    pub(crate) sidr: Sidr,
    pub(crate) outgoing: VecDeque<Outgoing>,
    /// Number of datagrams that were taken for sending.
    pub(crate) sent: u64,
    /// Number of calls for which there was no room.
    pub(crate) refused: u64,
    pub(crate) events: VecDeque<Event>,
    names: ChaCha8Rng,
}

impl Cm {
    /// Makes a manager without connections.
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

    /// Stops listening. Calls and questions that wait for an answer stay until they are answered or released.
    ///
    /// # Errors
    /// [`Refused::Unknown`].
    pub fn unlisten(&mut self, listener: ListenerId) -> Result<(), Refused> {
        self.listeners.remove(listener)
    }

    /// Returns the counts of calls that are no connections.
    pub fn calls(&self) -> Calls {
        Calls {
            half_open: self.store.half_open(),
            refused: self.refused,
        }
    }

    /// Takes the next datagram to be sent.
    pub fn next_outgoing(&mut self) -> Option<Outgoing> {
        let outgoing = self.outgoing.pop_front();
        self.sent += u64::from(outgoing.is_some());
        outgoing
    }

    /// Takes the next event for the owner.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Cm::expire`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines = [self.store.next_deadline(), self.sidr.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Repeats messages that were not answered in time, and gives up those that were repeated often enough.
    pub fn expire(&mut self, now: Duration) {
        while let Some(id) = self.store.pop_due(now) {
            self.overdue(id, now);
        }
        self.expire_questions(now);
    }

    /// Takes in a datagram; `false` if the manager does not know its kind.
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

    /// Repeats the message of a connection that has waited long enough, or ends the connection.
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

    /// Draws a name that no connection and no question has.
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

    /// Repeats the last message of a connection.
    pub(crate) fn repeat(&mut self, id: CommId) {
        if let Some(message) = self.store.get(id).and_then(|connection| connection.last) {
            self.say(id, message);
        }
    }

    /// Adds an event for the owner, unless the connection has none any more.
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
