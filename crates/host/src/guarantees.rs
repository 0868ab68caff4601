//! What arrives for members that are guaranteed something of it: who sends to them has turns out of the order
//! ([`run_queue`](crate::run_queue)) as long as they have had less.
//!
//! Packets of uplinks come as they come, and only count.

use std::sync::Arc;

use vrdma_switch::{Limit, Policy, PortId};
use vrdma_verbs::Time;

use crate::budget::Moved;
use crate::host::Host;
use crate::limits::Sent;
use crate::member::Member;
use crate::port::Port;

impl<M: Member, P: Port> Host<M, P> {
    /// The policy of a member of any shard, if that, or its group, is guaranteed something of what arrives.
    #[inline]
    pub(crate) fn guaranteed_receiver(&mut self, to: PortId) -> Option<Arc<Policy>> {
        let policy = self.accounts.policy(&self.shared, to)?;
        policy.is_guaranteed(Limit::IN).then(|| Arc::clone(policy))
    }

    /// A packet from an uplink arrives.
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
