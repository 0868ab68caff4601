//! Connections as records.

use alloc::vec::Vec;
use core::time::Duration;

use vrdma_wire::cm::{CmMad, CommId, Message, ServiceId};
use vrdma_wire::{FlowLabel, Gid, Mtu, Psn, Qpn, TrafficClass};

use super::{Unusable, bits, byte, datagram, ends, record, save_ends, trimmed};
use crate::connection::{Connection, HALF_OPEN_LASTS, HalfOpen, State};
use crate::machine::Cm;
use crate::terms::{Link, Side};

/// The states by their numbers in records.
const STATES: [State; 7] = [
    State::ReqSent,
    State::RepReceived,
    State::ReqReceived,
    State::RepSent,
    State::Established,
    State::DreqSent,
    State::TimeWait,
];

impl Cm {
    pub(super) fn save_connection(&self, connection: &Connection) -> record::Connection {
        let state = STATES.iter().position(|state| *state == connection.state);
        let waits_for = connection.listener;
        let waits_for = waits_for.and_then(|listener| self.listeners.service(listener));
        record::Connection {
            local: connection.local.0,
            remote: connection.remote.0,
            ends: save_ends(&connection.ends),
            state: state.unwrap_or_default() as u32,
            transaction: connection.transaction,
            link: save_link(&connection.link),
            peer: connection.peer.as_ref().map(save_side),
            patience: connection.patience.get().into(),
            retries: connection.retries.into(),
            last: connection.last.map_or(Vec::new(), |message| {
                let transaction = connection.transaction;
                trimmed(&CmMad {
                    transaction,
                    message,
                })
            }),
            waits_for: waits_for.map(|service| service.0),
            owned: connection.owned,
            half_open: connection.half_open.is_some(),
        }
    }

    pub(super) fn resume_connection(
        &mut self,
        record: &record::Connection,
        own: &[Gid],
        now: Duration,
    ) -> Result<CommId, Unusable> {
        let mut connection = parse(record, own, now)?;
        let id = connection.local;
        if !self.is_free(id) {
            return Err(Unusable::Full);
        }
        let service = record.waits_for.map(ServiceId);
        let listener = service.and_then(|it| self.listeners.find(it, connection.ends.local));
        connection.listener = listener.filter(|listener| self.listeners.wait(*listener));
        let until = due(&connection, now);
        self.store.insert(connection);
        self.store.set_deadline(id, until);
        Ok(id)
    }
}

/// Returns when the connection is due, as if its message was sent now.
fn due(connection: &Connection, now: Duration) -> Option<Duration> {
    match connection.state {
        State::ReqSent | State::RepSent | State::DreqSent => Some(connection.overdue_at(now, None)),
        State::TimeWait => Some(now + connection.timewait()),
        State::RepReceived | State::ReqReceived | State::Established => None,
    }
}

fn parse(record: &record::Connection, own: &[Gid], now: Duration) -> Result<Connection, Unusable> {
    let state = STATES.get(record.state as usize);
    let state = *state.ok_or(Unusable::Damaged)?;
    let last = match record.last.is_empty() {
        true => None,
        false => Some(datagram(&record.last).ok_or(Unusable::Damaged)?.message),
    };
    let peer = record.peer.as_ref().map(side).transpose()?;
    if !goes_together(record, state, last.as_ref(), peer.is_some()) {
        return Err(Unusable::Damaged);
    }
    let half_open = match state {
        State::ReqReceived => HalfOpen::Asked,
        _ => HalfOpen::Until(now + HALF_OPEN_LASTS),
    };
    Ok(Connection {
        local: CommId(record.local),
        remote: CommId(record.remote),
        ends: ends(&record.ends, own)?,
        state,
        transaction: record.transaction,
        link: link(&record.link)?,
        peer,
        patience: bits(record.patience)?,
        retries: byte(record.retries)?,
        last,
        listener: None,
        owned: record.owned,
        half_open: record.half_open.then_some(half_open),
        deadline: None,
    })
}

/// Whether the parts of a record fit: each state has its message to repeat, and its peer.
fn goes_together(
    record: &record::Connection,
    state: State,
    last: Option<&Message>,
    has_peer: bool,
) -> bool {
    let local = CommId(record.local);
    let says = match (state, last) {
        (State::ReqSent, Some(Message::Req(req))) => req.local == local,
        (State::RepSent, Some(Message::Rep(rep))) => rep.local == local,
        (State::DreqSent, Some(Message::Dreq(dreq))) => dreq.local == local,
        (State::Established, Some(Message::Rtu(rtu))) => rtu.local == local,
        (State::ReqSent | State::RepSent | State::DreqSent, _) => false,
        (_, last) => last.is_none(),
    };
    let half_open = match state {
        State::ReqReceived | State::RepSent => record.half_open,
        State::TimeWait => true,
        _ => !record.half_open,
    };
    let waits = record.waits_for.is_none() || state == State::ReqReceived;
    says && half_open && waits && has_peer == (state != State::ReqSent)
}

pub(super) fn save_link(link: &Link) -> record::Link {
    record::Link {
        mtu: link.mtu.code(),
        ack_timeout: link.ack_timeout.get().into(),
        retry_count: link.retry_count.get().into(),
        traffic_class: link.traffic_class.0.into(),
        flow_label: link.flow_label.get(),
        hop_limit: link.hop_limit.into(),
    }
}

pub(super) fn link(record: &record::Link) -> Result<Link, Unusable> {
    Ok(Link {
        mtu: Mtu::from_code(record.mtu).ok_or(Unusable::Damaged)?,
        ack_timeout: bits(record.ack_timeout)?,
        retry_count: bits(record.retry_count)?,
        traffic_class: TrafficClass(byte(record.traffic_class)?),
        flow_label: FlowLabel::new(record.flow_label),
        hop_limit: byte(record.hop_limit)?,
    })
}

pub(super) fn save_side(side: &Side) -> record::Side {
    record::Side {
        qpn: side.qpn.get(),
        psn: side.psn.get(),
        responder_resources: side.responder_resources.into(),
        initiator_depth: side.initiator_depth.into(),
        flow_control: side.flow_control,
        rnr_retry: side.rnr_retry.get().into(),
        srq: side.srq,
    }
}

pub(super) fn side(record: &record::Side) -> Result<Side, Unusable> {
    Ok(Side {
        qpn: Qpn::new(record.qpn).ok_or(Unusable::Damaged)?,
        psn: Psn::new(record.psn),
        responder_resources: byte(record.responder_resources)?,
        initiator_depth: byte(record.initiator_depth)?,
        flow_control: record.flow_control,
        rnr_retry: bits(record.rnr_retry)?,
        srq: record.srq,
    })
}
