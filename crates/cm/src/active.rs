//! The side that connects.

use core::time::Duration;

use vrdma_wire::Bits;
use vrdma_wire::cm::{About, CommId, Message, PrivateData, Rej, RejectReason, Rep};

use crate::connection::{Connection, State, side_of_rep};
use crate::event::{Event, Reply};
use crate::machine::Cm;
use crate::terms::{Call, Ends, Refused};

/// The message names a connection that is not there (IBTA 12.6.7.2).
const INVALID_COMM_ID: RejectReason = RejectReason(6);

impl Cm {
    /// Connects to a service. [`Event::Replied`], [`Event::Rejected`] or [`Event::Unreachable`] follows.
    ///
    /// # Errors
    /// [`Refused::Full`].
    pub fn connect(&mut self, call: &Call, now: Duration) -> Result<CommId, Refused> {
        let id = self.new_name()?;
        let connection = Connection::calling(id, call);
        let until = now + connection.wait(None);
        let req = connection.req(call, self.guid);
        self.store.insert(connection);
        self.store.set_deadline(id, Some(until));
        self.say_and_keep(id, req);
        Ok(id)
    }

    /// Tells the peer, which has replied, that this side's queue pair can take messages.
    ///
    /// # Errors
    /// [`Refused::Unknown`], and [`Refused::State`] unless [`Event::Replied`] was the last event.
    pub fn ready(&mut self, id: CommId, private: PrivateData<224>) -> Result<(), Refused> {
        let connection = self.store.get_mut(id).ok_or(Refused::Unknown)?;
        if connection.state != State::RepReceived {
            return Err(Refused::State);
        }
        connection.state = State::Established;
        let rtu = connection.rtu(private);
        self.say_and_keep(id, rtu);
        Ok(())
    }

    pub(crate) fn on_rep(&mut self, ends: Ends, transaction: u64, rep: &Rep) {
        let id = rep.remote;
        let known = self.store.get_mut(id);
        let Some(connection) = known.filter(|known| known.ends.remote == ends.remote) else {
            return self.send(ends, transaction, unknown(rep));
        };
        let same = connection.remote == rep.local;
        match connection.state {
            State::ReqSent => self.replied(id, rep),
            State::RepReceived if same => {
                let mra = connection.mra(About::Rep);
                self.say(id, mra);
            }
            State::Established if same && matches!(connection.last, Some(Message::Rtu(_))) => {
                self.repeat(id);
            }
            _ => {}
        }
    }

    fn replied(&mut self, id: CommId, rep: &Rep) {
        let Some(connection) = self.store.get_mut(id) else {
            return;
        };
        let side = side_of_rep(rep);
        connection.remote = rep.local;
        connection.peer = Some(side);
        connection.state = State::RepReceived;
        connection.last = None;
        self.store.name_peer(id);
        self.store.set_deadline(id, None);
        let reply = Reply {
            side,
            private: rep.private_data,
        };
        self.tell(id, Event::Replied(id, reply));
    }

    pub(crate) fn on_rej(&mut self, ends: Ends, rej: &Rej, now: Duration) {
        // A caller that gave up before it got an answer does not know this side's name of the connection.
        let gave_up = rej.reason == RejectReason::TIMEOUT && rej.remote == CommId(0);
        let id = if gave_up {
            self.store.of_remote(ends.remote, rej.local)
        } else {
            Some(rej.remote)
        };
        let Some((id, connection)) = id.and_then(|id| Some((id, self.store.get(id)?))) else {
            return;
        };
        let named = connection.remote == rej.local || connection.remote == CommId(0);
        if connection.ends.remote != ends.remote || !named {
            return;
        }
        match connection.state {
            State::TimeWait => {}
            State::Established | State::DreqSent => self.end(id, now),
            _ => self.forget(id, Event::Rejected(id, rej.reason, rej.private_data)),
        }
    }
}

/// Makes the REJ of a REP to a call that this side has forgotten.
fn unknown(rep: &Rep) -> Message {
    Message::Rej(Rej {
        local: rep.remote,
        remote: rep.local,
        about: About::Rep,
        info_len: Bits::low(0),
        reason: INVALID_COMM_ID,
        info: PrivateData::EMPTY,
        private_data: PrivateData::EMPTY,
    })
}
