//! Guarantees for arriving traffic: while a receiver has had less than is guaranteed to it, members that send to it get
//! turns out of the order ([`run_queue`](crate::run_queue)).
//!
//! The arrival of packets from uplinks cannot be scheduled; they are only counted.

use std::sync::Arc;

use vrdma_switch::{Limit, Policy, PortId};
use vrdma_verbs::Time;

use crate::budget::Moved;
use crate::host::Host;
use crate::limits::Sent;
use crate::member::Member;
use crate::port::Port;

impl<M: Member, P: Port> Host<M, P> {
    /// Returns the policy of a member of any shard, if it or its group has a guarantee for arriving traffic.
    #[inline]
    pub(crate) fn guaranteed_receiver(&mut self, to: PortId) -> Option<Arc<Policy>> {
        let policy = self.accounts.policy(&self.shared, to)?;
        policy.is_guaranteed(Limit::IN).then(|| Arc::clone(policy))
    }

    /// Counts a packet that arrives from an uplink.
    pub(crate) fn note_packet(&mut self, to: PortId, arrives: &Sent, now: Time) {
        if let Some(policy) = self.guaranteed_receiver(to) {
            let packet = Moved {
                ops: arrives.ops,
                ..Moved::frames(arrives.bytes)
            };
            packet.note(&policy, Limit::IN, now);
        }
    }
}
