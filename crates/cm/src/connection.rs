//! One connection, and the messages that it sends.

use core::time::Duration;

use vrdma_wire::cm::{
    About, CommId, Drep, Dreq, Message, Mra, PrivateData, Rej, RejectReason, Rep, Req, ReqPath, Rtu,
};
use vrdma_wire::{Bits, Pkey, Qkey};

use crate::listeners::ListenerId;
use crate::terms::{Call, Ends, Link, Side};

/// LIDs of a RoCE path: "permissive", which tells Linux to go by GIDs.
const NO_LID: u16 = 0xffff;

/// Code of the static rate 10 Gbit/s (IBTA 12.7.11, 15.2.5): any code other than "current rate" will do.
const RATE: Bits<6> = Bits::low(3);

/// Time that a side may take to answer, as a timeout code: 1.07 s.
pub(crate) const RESPONSE_TIMEOUT: Bits<5> = Bits::low(18);

/// Number of times that an unanswered message is repeated.
pub(crate) const MAX_RETRIES: Bits<4> = Bits::MAX;

/// Time that an MRA asks for: 68 s, for users that are slow to accept.
const SERVICE_TIMEOUT: Bits<5> = Bits::low(24);

/// Shortest wait that a peer can impose by its timeout codes: repetitions cost the adapter time.
const MIN_WAIT: Duration = Duration::from_millis(10);

/// Longest wait that a peer can impose by its timeout codes.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Longest wait for late packets.
const MAX_TIMEWAIT: Duration = Duration::from_secs(10);

/// Time that an accepted caller may take to report that it is ready, whatever it asked for by its timeout codes,
/// repetitions and MRAs.
pub(crate) const HALF_OPEN_LASTS: Duration = Duration::from_secs(60);

/// Longest wait before the acceptance is repeated, whatever an MRA asked for. It is repeated so often that not all of
/// the caller's answers to it get lost, when the caller takes itself for connected.
const HALF_OPEN_REPEAT: Duration = Duration::from_secs(4);

/// State of a call that is not a connection yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HalfOpen {
    /// The owner has not answered.
    Asked,
    /// The caller has not reported that it is ready, and may do so until this time.
    Until(Duration),
}

/// State of a connection (IBTA 12.9.7). MRAs only move the timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Active: waits for the REP.
    ReqSent,
    /// Active: the owner decides.
    RepReceived,
    /// Passive: the owner decides.
    ReqReceived,
    /// Passive: waits for the RTU.
    RepSent,
    /// Both sides may send.
    Established,
    /// Waits for the DREP.
    DreqSent,
    /// Waits for late packets to die.
    TimeWait,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) local: CommId,
    /// The peer's name of the connection; zero until the peer has told it.
    pub(crate) remote: CommId,
    pub(crate) ends: Ends,
    pub(crate) state: State,
    pub(crate) transaction: u64,
    pub(crate) link: Link,
    /// The peer's queue pair; known from its REQ or REP on.
    pub(crate) peer: Option<Side>,
    /// Time that the peer may take to answer.
    pub(crate) patience: Bits<5>,
    /// Number of times that the message may still be repeated.
    pub(crate) retries: u8,
    /// The message that was sent last, for repetition.
    pub(crate) last: Option<Message>,
    /// The listener whose answer the call waits for.
    pub(crate) listener: Option<ListenerId>,
    /// Whether the owner still wants events.
    pub(crate) owned: bool,
    /// State of an incoming call that has not been in use yet, with the time until which that may last once it was
    /// accepted.
    pub(crate) half_open: Option<HalfOpen>,
    /// Time of its entry among the timers.
    pub(crate) deadline: Option<Duration>,
}

impl Connection {
    pub(crate) fn calling(local: CommId, call: &Call) -> Self {
        Self {
            local,
            remote: CommId(0),
            ends: call.ends,
            state: State::ReqSent,
            transaction: u64::from(local.0) << 32,
            link: call.link,
            peer: None,
            patience: RESPONSE_TIMEOUT,
            retries: MAX_RETRIES.get(),
            last: None,
            listener: None,
            owned: true,
            half_open: None,
            deadline: None,
        }
    }

    /// Returns how long to wait for an answer of the peer, including what the peer asked for on top.
    pub(crate) fn wait(&self, on_top: Option<Bits<5>>) -> Duration {
        let asked = on_top.map_or(Duration::ZERO, vrdma_wire::cm::timeout);
        (vrdma_wire::cm::timeout(self.patience) + asked).clamp(MIN_WAIT, MAX_WAIT)
    }

    /// Returns the time at which the peer's answer is overdue.
    pub(crate) fn overdue_at(&self, now: Duration, on_top: Option<Bits<5>>) -> Duration {
        let until = now + self.wait(on_top);
        match self.half_open {
            Some(HalfOpen::Until(last)) => until.min(now + HALF_OPEN_REPEAT).min(last),
            _ => until,
        }
    }

    /// Whether an accepted caller has used up all its time.
    pub(crate) fn is_too_late(&self, now: Duration) -> bool {
        matches!(self.half_open, Some(HalfOpen::Until(last)) if last <= now)
    }

    /// Returns how long late packets may still arrive: a few times as long as the wait for an acknowledgement.
    pub(crate) fn timewait(&self) -> Duration {
        (vrdma_wire::cm::timeout(self.link.ack_timeout) * 2).min(MAX_TIMEWAIT)
    }

    pub(crate) fn req(&self, call: &Call, guid: u64) -> Message {
        Message::Req(Req {
            local: self.local,
            service: call.service,
            guid,
            qkey: Qkey(0),
            qpn: call.side.qpn,
            responder_resources: call.side.responder_resources,
            initiator_depth: call.side.initiator_depth,
            remote_timeout: RESPONSE_TIMEOUT,
            connection: call.kind,
            flow_control: call.side.flow_control,
            psn: call.side.psn,
            local_timeout: RESPONSE_TIMEOUT,
            retry_count: call.link.retry_count,
            pkey: Pkey::DEFAULT,
            mtu: call.link.mtu,
            rnr_retry: call.side.rnr_retry,
            max_cm_retries: MAX_RETRIES,
            srq: call.side.srq,
            primary: path(call),
            alternate: None,
            private_data: call.private,
        })
    }

    pub(crate) fn rep(&self, side: &Side, guid: u64, private: PrivateData<196>) -> Message {
        Message::Rep(Rep {
            local: self.local,
            remote: self.remote,
            qkey: Qkey(0),
            qpn: side.qpn,
            psn: side.psn,
            responder_resources: side.responder_resources,
            initiator_depth: side.initiator_depth,
            ack_delay: self.link.ack_timeout,
            failover: Bits::low(1),
            flow_control: side.flow_control,
            rnr_retry: side.rnr_retry,
            srq: side.srq,
            guid,
            private_data: private,
        })
    }

    pub(crate) fn rtu(&self, private: PrivateData<224>) -> Message {
        Message::Rtu(Rtu {
            local: self.local,
            remote: self.remote,
            private_data: private,
        })
    }

    pub(crate) fn mra(&self, about: About) -> Message {
        Message::Mra(Mra {
            local: self.local,
            remote: self.remote,
            about,
            service_timeout: SERVICE_TIMEOUT,
            private_data: PrivateData::EMPTY,
        })
    }

    pub(crate) fn rej(&self, reason: RejectReason, private: PrivateData<148>) -> Message {
        let about = match self.state {
            State::ReqReceived => About::Req,
            State::RepReceived => About::Rep,
            _ => About::Other,
        };
        Message::Rej(Rej {
            local: self.local,
            remote: self.remote,
            about,
            info_len: Bits::low(0),
            reason,
            info: PrivateData::EMPTY,
            private_data: private,
        })
    }

    /// Makes the REJ to a peer that has not answered (and so has no name of this side yet) when this side gives up. The
    /// peer finds the connection by this side's node and name (IBTA 12.6.7.2).
    pub(crate) fn gave_up(&self, guid: u64) -> Message {
        Message::Rej(Rej {
            local: self.local,
            remote: self.remote,
            about: About::Req,
            info_len: Bits::low(8),
            reason: RejectReason::TIMEOUT,
            info: PrivateData::new(&guid.to_be_bytes()).unwrap_or(PrivateData::EMPTY),
            private_data: PrivateData::EMPTY,
        })
    }

    pub(crate) fn dreq(&self) -> Message {
        Message::Dreq(Dreq {
            local: self.local,
            remote: self.remote,
            remote_qpn: self.peer.map(|peer| peer.qpn).unwrap_or_default(),
            private_data: PrivateData::EMPTY,
        })
    }

    pub(crate) fn drep(&self) -> Message {
        drep(self.local, self.remote)
    }
}

/// Makes a DREP from one name to the other.
pub(crate) fn drep(local: CommId, remote: CommId) -> Message {
    Message::Drep(Drep {
        local,
        remote,
        private_data: PrivateData::EMPTY,
    })
}

/// Makes the REJ of a REQ for which there is no connection.
pub(crate) fn refuse(caller: CommId, reason: RejectReason) -> Message {
    Message::Rej(Rej {
        local: CommId(0),
        remote: caller,
        about: About::Req,
        info_len: Bits::low(0),
        reason,
        info: PrivateData::EMPTY,
        private_data: PrivateData::EMPTY,
    })
}

fn path(call: &Call) -> ReqPath {
    ReqPath {
        local_lid: NO_LID,
        remote_lid: NO_LID,
        local_gid: call.ends.local,
        remote_gid: call.ends.remote,
        flow_label: call.link.flow_label,
        rate: RATE,
        traffic_class: call.link.traffic_class,
        hop_limit: call.link.hop_limit,
        service_level: Bits::low(0),
        subnet_local: call.link.hop_limit <= 1,
        ack_timeout: call.link.ack_timeout,
    }
}

/// Returns the sender's side from a REQ.
pub(crate) fn side_of_req(req: &Req) -> Side {
    Side {
        qpn: req.qpn,
        psn: req.psn,
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        flow_control: req.flow_control,
        rnr_retry: req.rnr_retry,
        srq: req.srq,
    }
}

/// Returns the parameters for both sides from a REQ.
pub(crate) fn link_of_req(req: &Req) -> Link {
    Link {
        mtu: req.mtu,
        ack_timeout: req.primary.ack_timeout,
        retry_count: req.retry_count,
        traffic_class: req.primary.traffic_class,
        flow_label: req.primary.flow_label,
        hop_limit: req.primary.hop_limit,
    }
}

/// Returns the sender's side from a REP.
pub(crate) fn side_of_rep(rep: &Rep) -> Side {
    Side {
        qpn: rep.qpn,
        psn: rep.psn,
        responder_resources: rep.responder_resources,
        initiator_depth: rep.initiator_depth,
        flow_control: rep.flow_control,
        rnr_retry: rep.rnr_retry,
        srq: rep.srq,
    }
}
