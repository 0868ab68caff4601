//! The side that is connected to.

use core::time::Duration;

use vrdma_wire::cm::{About, CommId, PrivateData, RejectReason, Req, Rtu};

use crate::connection::{
    Connection, HALF_OPEN_LASTS, HalfOpen, State, link_of_req, refuse, side_of_req,
};
use crate::event::{Event, Request};
use crate::ip;
use crate::listeners::ListenerId;
use crate::machine::Cm;
use crate::terms::{Acceptance, Ends, Refused};

impl Cm {
    /// Accepts a call. [`Event::Established`], [`Event::Rejected`] or [`Event::Unreachable`] follows.
    ///
    /// # Errors
    /// [`Refused::Unknown`], and [`Refused::State`] if the call was answered already.
    pub fn accept(
        &mut self,
        id: CommId,
        acceptance: &Acceptance,
        now: Duration,
    ) -> Result<(), Refused> {
        let guid = self.guid;
        let connection = self.store.get_mut(id).ok_or(Refused::Unknown)?;
        if connection.state != State::ReqReceived {
            return Err(Refused::State);
        }
        connection.state = State::RepSent;
        connection.half_open = Some(HalfOpen::Until(now + HALF_OPEN_LASTS));
        let listener = connection.listener.take();
        let until = connection.overdue_at(now, None);
        let rep = connection.rep(&acceptance.side, guid, acceptance.private);
        if let Some(listener) = listener {
            self.listeners.answered(listener);
        }
        self.store.set_deadline(id, Some(until));
        self.say_and_keep(id, rep);
        Ok(())
    }

    /// Rejects a call, or the reply to one. The connection is forgotten.
    ///
    /// # Errors
    /// [`Refused::Unknown`], and [`Refused::State`] if the answer was given already.
    pub fn reject(
        &mut self,
        id: CommId,
        reason: RejectReason,
        private: PrivateData<148>,
    ) -> Result<(), Refused> {
        let connection = self.store.get(id).ok_or(Refused::Unknown)?;
        if !matches!(connection.state, State::ReqReceived | State::RepReceived) {
            return Err(Refused::State);
        }
        let rej = connection.rej(reason, private);
        self.say(id, rej);
        self.drop_connection(id);
        Ok(())
    }

    /// Notes that a message of the peer has arrived at the queue pair. So the peer is ready, even if its RTU got lost
    /// (IBTA 12.9.7, "communication established").
    ///
    /// # Errors
    /// [`Refused::Unknown`].
    pub fn established(&mut self, id: CommId) -> Result<(), Refused> {
        let connection = self.store.get(id).ok_or(Refused::Unknown)?;
        if connection.state == State::RepSent {
            self.caller_ready(id, PrivateData::EMPTY);
        }
        Ok(())
    }

    pub(crate) fn on_req(&mut self, ends: Ends, transaction: u64, req: &Req, now: Duration) {
        if let Some(id) = self.store.of_remote(ends.remote, req.local) {
            return self.called_again(id, ends, transaction, req);
        }
        let answer = match self.listeners.find(req.service, ends.local) {
            _ if self.store.of_pair(ends.remote, req.qpn).is_some() => {
                self.end_stale(ends, req, now);
                Err(RejectReason::STALE)
            }
            None => Err(RejectReason::INVALID_SERVICE),
            Some(listener) => self.called(listener, ends, transaction, req),
        };
        if let Err(reason) = answer {
            self.refused += u64::from(reason == RejectReason::NO_RESOURCES);
            self.send(ends, transaction, refuse(req.local, reason));
        }
    }

    /// Handles a repeated call: the answer may have got lost, or is still to be given.
    fn called_again(&mut self, id: CommId, ends: Ends, transaction: u64, req: &Req) {
        let Some(connection) = self.store.get(id) else {
            return;
        };
        match connection.state {
            State::ReqReceived => {
                let mra = connection.mra(About::Req);
                self.say(id, mra);
            }
            State::RepSent => self.repeat(id),
            State::TimeWait => {
                self.send(ends, transaction, refuse(req.local, RejectReason::STALE));
            }
            _ => {}
        }
    }

    /// Ends a connection whose queue pair the peer uses anew (IBTA 12.9.8).
    fn end_stale(&mut self, ends: Ends, req: &Req, now: Duration) {
        let Some(id) = self.store.of_pair(ends.remote, req.qpn) else {
            return;
        };
        if self.disconnect(id, now).is_err() {
            let none = PrivateData::EMPTY;
            self.forget(id, Event::Rejected(id, RejectReason::STALE, none));
        }
    }

    fn called(
        &mut self,
        listener: ListenerId,
        ends: Ends,
        transaction: u64,
        req: &Req,
    ) -> Result<(), RejectReason> {
        let split = ip::split(req.service, ends.remote, &req.private_data);
        let (caller, private) = split.map_err(|()| RejectReason::UNSUPPORTED)?;
        if !self.store.admits_call(ends.remote) {
            return Err(RejectReason::NO_RESOURCES);
        }
        let name = self.new_name();
        let id = name.map_err(|_| RejectReason::NO_RESOURCES)?;
        // Linux rejects such a call, too. Without a REJ, its caller would wait for as long as it repeats the call.
        if !self.listeners.wait(listener) {
            return Err(RejectReason::NO_RESOURCES);
        }
        let connection = connection_of(id, listener, ends, transaction, req);
        let request = Request {
            ends,
            service: req.service,
            kind: req.connection,
            side: side_of_req(req),
            link: connection.link,
            caller,
            private,
        };
        self.store.insert(connection);
        self.tell(id, Event::Requested(id, listener, request));
        Ok(())
    }

    pub(crate) fn on_rtu(&mut self, ends: Ends, rtu: &Rtu) {
        let waits = self.store.get(rtu.remote).is_some_and(|connection| {
            connection.state == State::RepSent
                && connection.remote == rtu.local
                && connection.ends.remote == ends.remote
        });
        if waits {
            self.caller_ready(rtu.remote, rtu.private_data);
        }
    }

    fn caller_ready(&mut self, id: CommId, private: PrivateData<224>) {
        if let Some(connection) = self.store.get_mut(id) {
            connection.state = State::Established;
            connection.last = None;
        }
        self.store.opened(id);
        self.store.set_deadline(id, None);
        self.tell(id, Event::Established(id, private));
    }
}

fn connection_of(
    id: CommId,
    listener: ListenerId,
    ends: Ends,
    transaction: u64,
    req: &Req,
) -> Connection {
    Connection {
        local: id,
        remote: req.local,
        ends,
        state: State::ReqReceived,
        transaction,
        link: link_of_req(req),
        peer: Some(side_of_req(req)),
        patience: req.local_timeout,
        retries: req.max_cm_retries.get(),
        last: None,
        listener: Some(listener),
        owned: true,
        half_open: Some(HalfOpen::Asked),
        deadline: None,
    }
}
