//! Members with a limit: they pay for what they send, and wait when they have sent too much.
//!
//! ```text
//!   turn ──► within its limit? ──► send a unit, pay ──► ... ──► beyond it: wait for a timer ──► turn
//! ```
//! A member without a limit costs a look at its policy.

use std::time::Duration;

use vrdma_switch::PortId;
use vrdma_verbs::Time;

use crate::member::Member;
use crate::members::Members;

/// The shortest wait: turns that are closer to each other cost more than they send, and a meter's burst
/// makes up for it.
const WAIT_LEAST: Duration = Duration::from_micros(50);

/// The longest wait: so soon a member notices that its limit was changed.
const WAIT_MOST: Duration = Duration::from_millis(4);

impl<M: Member> Members<M> {
    /// Whether a member may send.
    pub(crate) fn is_within_limit(&self, port: PortId, now: Time) -> bool {
        let policy = self.get(port).and_then(M::policy);
        policy.is_none_or(|policy| policy.out.wait_ns(now.0) == 0)
    }

    /// A member has sent so many bytes, which ends its wait, unless they are none.
    pub(crate) fn pay(&mut self, port: PortId, bytes: u64, now: Time) {
        if bytes == 0 {
            return;
        }
        let Some(slot) = self.slot(port) else { return };
        if let Some(policy) = slot.member.policy() {
            policy.out.charge(bytes.saturating_mul(8), now.0);
            if let Some(since) = slot.limited.take() {
                policy.count_wait(now.since(since).as_nanos() as u64);
            }
        }
    }

    /// Whether a member with something to send waits for its limit. It gets a turn by a timer then.
    pub(crate) fn waits_for_limit(&mut self, port: PortId, now: Time) -> bool {
        let Some(slot) = self.slot(port) else {
            return false;
        };
        let Some(policy) = slot.member.policy() else {
            return false;
        };
        let wait = Duration::from_nanos(policy.out.wait_ns(now.0));
        if wait.is_zero() || !slot.member.is_runnable() {
            return false;
        }
        slot.limited.get_or_insert(now);
        self.wake_by(port, now + wait.clamp(WAIT_LEAST, WAIT_MOST));
        true
    }
}
