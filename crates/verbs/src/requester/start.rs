//! Starting a request: everything that can be wrong with it on this side.

use vrdma_wire::Qpn;

use crate::attr::Access;
use crate::counters::Traffic;
use crate::object::QpType;
use crate::qp::{PORT, Qp};
use crate::requester::Phase;
use crate::shared::Shared;
use crate::work::{Datagram, SendOp, SendWr, Status, WcOp};

/// Bytes of an atomic's operand and result.
pub(crate) const ATOMIC_BYTES: u32 = 8;

/// Result of an attempt to start a request.
pub(crate) enum Start {
    /// It has units to send.
    Units,
    /// It needed none and is done.
    Done,
    /// It has to wait for answers.
    Wait,
}

impl<R> SendOp<R> {
    /// Returns the kind of its completion.
    pub(crate) fn completes_as(&self) -> WcOp {
        match self {
            Self::Send | Self::SendImm(_) | Self::SendInvalidate(_) | Self::Refused(_) => {
                WcOp::Send
            }
            Self::Write(_) | Self::WriteImm(..) => WcOp::Write,
            Self::Read(_) => WcOp::Read,
            Self::CompareSwap { .. } => WcOp::CompareSwap,
            Self::FetchAdd { .. } => WcOp::FetchAdd,
            Self::LocalInvalidate(_) => WcOp::LocalInvalidate,
            Self::BindWindow(_) => WcOp::BindWindow,
            Self::FastRegister(_) => WcOp::FastRegister,
        }
    }

    /// Whether the service offers it (IBTA 10.8.2; the GSI takes plain SENDs only). Packets of unreliable connections
    /// cannot carry a key to invalidate.
    fn is_offered_by(&self, qp_type: QpType) -> bool {
        match self {
            Self::Send | Self::Refused(_) => true,
            Self::SendImm(_) => qp_type != QpType::Gsi,
            Self::Write(_)
            | Self::WriteImm(..)
            | Self::LocalInvalidate(_)
            | Self::BindWindow(_)
            | Self::FastRegister(_) => qp_type.is_connected(),
            Self::SendInvalidate(_)
            | Self::Read(_)
            | Self::CompareSwap { .. }
            | Self::FetchAdd { .. } => qp_type == QpType::Rc,
        }
    }

    /// Whether the local buffers are sent.
    pub(crate) fn has_payload(&self) -> bool {
        matches!(
            self,
            Self::Send
                | Self::SendImm(_)
                | Self::SendInvalidate(_)
                | Self::Write(_)
                | Self::WriteImm(..)
                | Self::Refused(_)
        )
    }

    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self, Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }

    /// Whether it is answered with data, and so limited in number.
    pub(crate) fn is_read_or_atomic(&self) -> bool {
        matches!(self, Self::Read(_)) || self.is_atomic()
    }
}

/// Most requests from the oldest on that may be finished before it: each has a bit in
/// [`Requester::done_before`](super::Requester).
const DONE_EARLY_MAX: usize = u64::BITS as usize;

impl<R: Clone> Qp<R> {
    /// Starts the request at the cursor, or returns the status with which it fails.
    pub(crate) fn start_request(&mut self, shared: &mut Shared<R>) -> Result<Start, Status> {
        let requester = &self.requester;
        let wr = &requester.queue[requester.cursor].wr;
        if !wr.op.is_offered_by(self.spec.qp_type) {
            return Err(Status::LocQpOp);
        }
        if self.has_to_wait(wr) {
            return Ok(Start::Wait);
        }
        match &wr.op {
            SendOp::Refused(status) => Err(*status),
            SendOp::LocalInvalidate(key) => {
                let key = *key;
                shared.invalidate(self, key)?;
                Ok(self.done_at_cursor())
            }
            SendOp::BindWindow(bind) => {
                let bind = *bind;
                shared.bind_window(self, &bind)?;
                Ok(self.done_at_cursor())
            }
            SendOp::FastRegister(fill) => {
                shared.fast_register(self.spec.pd, fill)?;
                Ok(self.done_at_cursor())
            }
            _ => self.start_message(shared),
        }
    }

    /// Whether a request has to wait: a fence for READs and atomics, an invalidation for everything older, because a
    /// unit that is sent again looks its buffers up again (IBTA 10.8.3).
    fn has_to_wait(&self, wr: &SendWr<R>) -> bool {
        let fenced = wr.fence && !self.requester.awaiting.is_empty();
        let invalidates = matches!(wr.op, SendOp::LocalInvalidate(_));
        fenced || (invalidates && !self.requester.is_answered()) || self.is_done_too_early(wr)
    }

    /// Whether a request that must not be done twice is too far from the oldest one: it has to be among the requests
    /// that a [progress](crate::saved) covers.
    fn is_done_too_early(&self, wr: &SendWr<R>) -> bool {
        let once = matches!(wr.op, SendOp::BindWindow(_) | SendOp::FastRegister(_));
        once && self.requester.cursor >= DONE_EARLY_MAX
    }

    fn done_at_cursor(&mut self) -> Start {
        let requester = &mut self.requester;
        let phase = &mut requester.queue[requester.cursor].phase;
        debug_assert_eq!(*phase, Phase::Posted, "it is done once");
        *phase = Phase::Done;
        requester.done_early += 1;
        requester.cursor += 1;
        Start::Done
    }

    fn start_message(&mut self, shared: &mut Shared<R>) -> Result<Start, Status> {
        let wr = &self.requester.queue[self.requester.cursor].wr;
        let length = self.checked_length(shared, wr)?;
        if wr.op.is_read_or_atomic() {
            self.check_results(shared, wr, length)?;
        }
        if self.is_connected() {
            count(&mut shared.counters.sent, self.spec.qp_type, wr, length);
        } else {
            check_datagram(shared, wr.datagram.as_ref())?;
        }
        let first = self.requester.next;
        let packets = match self.spec.qp_type {
            QpType::Rc | QpType::Uc => self.attr.path_mtu.packets(length),
            QpType::Gsi | QpType::Ud => 1,
        };
        self.requester.queue[self.requester.cursor].start(length, first, packets);
        Ok(Start::Units)
    }

    /// Counts a datagram that leaves. Before that is too early, because one that waited may have been started anew.
    pub(super) fn count_datagram(&self, shared: &mut Shared<R>, index: usize) {
        let pending = &self.requester.queue[index];
        let sent = &mut shared.counters.sent;
        count(sent, self.spec.qp_type, &pending.wr, pending.length);
    }

    fn checked_length(&self, shared: &Shared<R>, wr: &SendWr<R>) -> Result<u32, Status> {
        let bytes = wr.local_bytes();
        if wr.op.is_atomic() {
            let enough = bytes >= u64::from(ATOMIC_BYTES);
            return enough.then_some(ATOMIC_BYTES).ok_or(Status::LocQpOp);
        }
        let longest = match self.spec.qp_type {
            QpType::Rc | QpType::Uc => shared.limits.message_bytes,
            QpType::Gsi | QpType::Ud => shared.limits.port_mtu.bytes(),
        };
        u32::try_from(bytes)
            .ok()
            .filter(|length| *length <= longest)
            .ok_or(Status::LocLen)
    }

    /// Checks the local buffers of READs and atomics, which receive the results, before the peer has done its part. A
    /// request that the connection never allows would wait for ever.
    #[inline(never)]
    fn check_results(&self, shared: &Shared<R>, wr: &SendWr<R>, length: u32) -> Result<(), Status> {
        if self.attr.max_rd_atomic == 0 {
            return Err(Status::LocQpOp);
        }
        shared
            .may_touch(self.spec.pd, &wr.sges, length, Access::LOCAL_WRITE)
            .then_some(())
            .ok_or(Status::LocProt)
    }
}

/// Checks an address vector, which comes straight from an application (IBTA 11.2). A multicast group has one QPN for
/// all of its queue pairs.
#[inline(never)]
fn check_datagram<R>(shared: &Shared<R>, datagram: Option<&Datagram>) -> Result<(), Status> {
    let Some(Datagram { qpn, address, .. }) = datagram else {
        return Err(Status::LocQpOp);
    };
    let valid = qpn.get() != 0
        && address.port == PORT
        && shared.gid(address.sgid_index).is_some()
        && !address.dgid.is_zero()
        && (!address.dgid.is_multicast() || *qpn == Qpn::MULTICAST);
    valid.then_some(()).ok_or(Status::LocQpOp)
}

fn count<R>(sent: &mut Traffic, qp_type: QpType, wr: &SendWr<R>, length: u32) {
    let kind = match wr.op {
        _ if !qp_type.is_connected() => &mut sent.datagrams,
        SendOp::Write(_) | SendOp::WriteImm(..) => &mut sent.writes,
        SendOp::Read(_) => &mut sent.reads,
        SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => &mut sent.atomics,
        _ => &mut sent.sends,
    };
    *kind += 1;
    if !wr.op.is_atomic() {
        sent.bytes += u64::from(length);
    }
}
