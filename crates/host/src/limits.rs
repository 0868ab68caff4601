//! Limits of members: a member pays for what it sends, and waits when it has sent too much. What arrives for a member
//! is charged, too.
//!
//! ```text
//!   turn ──► within its limit? ──► send a unit, pay ──► ... ──► beyond it: wait, see `accounts` ──► turn
//!                                        └──► charge the receiver, and wait while it is beyond its limit
//! ```
//! A member without a limit costs a look at its policy.
//!
//! A message is one operation: outgoing for the member that asks, incoming for the other. Payload is outgoing for the
//! member whose memory it is read from and incoming for the other, so that of a READ goes against its operation.

use std::time::Duration;

use vrdma_switch::{Limit, PortId};
use vrdma_verbs::Time;
use vrdma_verbs::unit::{Request, RequestOp};

use crate::accounts::{Account, Passed};
use crate::budget;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;
use crate::turn::Turn;

/// The shortest wait: turns closer together cost more than they send, and a meter's burst makes up for the wait.
const WAIT_LEAST: Duration = Duration::from_micros(50);

/// The longest wait: after this time a member notices that its limit was changed.
const WAIT_MOST: Duration = Duration::from_millis(4);

/// How long a member that was told to go on has to do so before others may.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Returns how long to wait before a limit is looked at again.
pub(crate) fn pause(wait_ns: u64) -> Duration {
    Duration::from_nanos(wait_ns).clamp(WAIT_LEAST, WAIT_MOST)
}

/// What a unit sends from a member, or to one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    /// Messages that begin with the unit.
    pub(crate) ops: u64,
}

impl Sent {
    /// Returns what a request takes to its destination.
    pub(crate) fn of<R>(request: &Request<R>) -> Self {
        Self {
            bytes: budget::given(request),
            ops: u64::from(request.first),
        }
    }
}

fn bits(bytes: u64) -> u64 {
    bytes.saturating_mul(8)
}

impl<M: Member, P: Port> Host<M, P> {
    /// Whether a member with something to send waits for a limit of its own. It is woken when it may go on.
    #[inline]
    pub(crate) fn waits_for_limit(&mut self, port: PortId, now: Time) -> bool {
        self.is_charged(port) && self.has_to_wait(port, now)
    }

    /// Whether a member has limits to look at.
    #[inline]
    pub(crate) fn is_charged(&mut self, port: PortId) -> bool {
        self.accounts.is_any_closed() || self.accounts.is_limited(&self.shared, port)
    }

    fn has_to_wait(&mut self, port: PortId, now: Time) -> bool {
        let accounts = Limit::OUT.map(|limit| Account { port, limit });
        let mut takes = accounts.iter();
        if !self.accounts.is_any_closed()
            && takes.all(|account| self.accounts.takes(&self.shared, *account, now))
        {
            return false;
        }
        if !self.members.get(port).is_some_and(M::is_runnable) {
            return false;
        }
        let mut accounts = accounts.into_iter();
        accounts.any(|account| self.accounts.holds_up(&self.shared, port, account, now))
    }

    /// Charges a member for what it has sent.
    #[inline]
    pub(crate) fn pay(&mut self, port: PortId, sent: Sent, now: Time) {
        if !self.is_charged(port) {
            return;
        }
        let by = Some(port);
        let passed = |amount| Passed { amount, by, now };
        self.charge(port, Limit::OutBits, passed(bits(sent.bytes)));
        self.charge(port, Limit::OutOps, passed(sent.ops));
    }

    /// Charges both ends of a request within the host for everything except what its sender [pays](Self::pay).
    #[inline]
    pub(crate) fn charge_ends(
        &mut self,
        turn: Turn<'_, M::View<'_>>,
        to: PortId,
        request: &Request<M::Region>,
    ) {
        if !self.is_charged(to) && !self.is_charged(turn.from) {
            return;
        }
        let (by, now) = (Some(turn.from), turn.now);
        self.charge_arrival(to, &Sent::of(request), by, now);
        if let RequestOp::Read { length, .. } = request.op {
            let amount = bits(length.into());
            let read = Passed { amount, by, now };
            self.charge(to, Limit::OutBits, read);
            self.charge(turn.from, Limit::InBits, read);
        }
    }

    /// Charges a member for something that arrives, whatever its limits say.
    pub(crate) fn charge_arrival(
        &mut self,
        to: PortId,
        sent: &Sent,
        by: Option<PortId>,
        now: Time,
    ) {
        let passed = |amount| Passed { amount, by, now };
        self.charge(to, Limit::InBits, passed(bits(sent.bytes)));
        self.charge(to, Limit::InOps, passed(sent.ops));
    }

    /// Whether something may arrive for a member whose sender cannot wait: it is charged if so, and counted as dropped
    /// if not.
    pub(crate) fn admits(&mut self, to: PortId, sent: &Sent, now: Time) -> bool {
        let Some(policy) = self.accounts.policy(&self.shared, to) else {
            return true;
        };
        if let Some((limit, _)) = policy.longest_wait(&Limit::IN, now.0) {
            policy.count_drop(limit);
            return false;
        }
        self.charge_arrival(to, sent, None, now);
        true
    }

    fn charge(&mut self, port: PortId, limit: Limit, passed: Passed) {
        let account = Account { port, limit };
        self.accounts.charge(&self.shared, account, passed);
    }
}
