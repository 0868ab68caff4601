//! The end of connections.

use core::time::Duration;

use vrdma_wire::cm::{CommId, Drep, Dreq, PrivateData, RejectReason};

use crate::connection::{MAX_RETRIES, State, drep};
use crate::event::Event;
use crate::machine::Cm;
use crate::terms::{Ends, Refused};

impl Cm {
    /// Ends a connection. [`Event::Disconnected`] follows, unless it came already.
    ///
    /// # Errors
    /// [`Refused::Unknown`], and [`Refused::State`] while there is no connection yet.
    pub fn disconnect(&mut self, id: CommId, now: Duration) -> Result<(), Refused> {
        let connection = self.store.get_mut(id).ok_or(Refused::Unknown)?;
        match connection.state {
            State::DreqSent | State::TimeWait => return Ok(()),
            State::Established | State::RepSent => {}
            State::ReqSent | State::ReqReceived | State::RepReceived => return Err(Refused::State),
        }
        connection.state = State::DreqSent;
        connection.retries = MAX_RETRIES.get();
        let until = now + connection.wait(None);
        let dreq = connection.dreq();
        self.store.opened(id);
        self.store.set_deadline(id, Some(until));
        self.say_and_keep(id, dreq);
        Ok(())
    }

    /// Ends the owner's interest in a connection or question in any state. The peer is told what it needs to know; no
    /// events follow.
    pub fn release(&mut self, id: CommId, now: Duration) {
        let Some(connection) = self.store.get_mut(id) else {
            return self.release_question(id);
        };
        connection.owned = false;
        let farewell = match connection.state {
            State::ReqSent => connection.gave_up(self.guid),
            State::ReqReceived | State::RepReceived => {
                connection.rej(RejectReason::CONSUMER, PrivateData::EMPTY)
            }
            State::RepSent | State::Established => {
                // `disconnect` is allowed in this state.
                let _ends_by_itself = self.disconnect(id, now);
                return;
            }
            State::DreqSent | State::TimeWait => return,
        };
        self.say(id, farewell);
        self.drop_connection(id);
    }

    /// Ends a connection of whose end both sides know, or whose peer does not answer.
    pub(crate) fn end(&mut self, id: CommId, now: Duration) {
        let Some(connection) = self.store.get_mut(id) else {
            return;
        };
        connection.state = State::TimeWait;
        connection.last = None;
        let until = now + connection.timewait();
        self.store.set_deadline(id, Some(until));
        self.tell(id, Event::Disconnected(id));
    }

    pub(crate) fn on_dreq(&mut self, ends: Ends, transaction: u64, dreq: &Dreq, now: Duration) {
        let known = self.store.get(dreq.remote).filter(|connection| {
            connection.remote == dreq.local && connection.ends.remote == ends.remote
        });
        let answer = match known {
            Some(connection) => connection.drep(),
            // This side has forgotten the connection: the peer may forget it, too.
            None => return self.send(ends, transaction, drep(dreq.remote, dreq.local)),
        };
        let state = known.map(|connection| connection.state);
        match state {
            Some(State::RepSent | State::Established | State::DreqSent) => {
                self.send(ends, transaction, answer);
                self.end(dreq.remote, now);
            }
            Some(State::TimeWait) => self.send(ends, transaction, answer),
            // The peer ends a call that this side's owner has not answered yet.
            Some(State::RepReceived | State::ReqReceived) => {
                self.send(ends, transaction, answer);
                let gone = Event::Rejected(dreq.remote, RejectReason::STALE, PrivateData::EMPTY);
                self.forget(dreq.remote, gone);
            }
            Some(State::ReqSent) | None => {}
        }
    }

    pub(crate) fn on_drep(&mut self, ends: Ends, drep: &Drep, now: Duration) {
        let waits = self.store.get(drep.remote).is_some_and(|connection| {
            connection.state == State::DreqSent
                && connection.remote == drep.local
                && connection.ends.remote == ends.remote
        });
        if waits {
            self.end(drep.remote, now);
        }
    }
}
