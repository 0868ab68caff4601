//! The clients whose doorbells are looked at in each turn, and those that wake the daemon.
//!
//! ```text
//!   opened ──► asleep: the page says so, and who rings writes the eventfd
//!                │  rang, or made a request            ▲ silent for 2 ms
//!                └──► polled: looked at in each turn ──┘
//! ```
//! So a client that does nothing costs no look, and a client that rings often costs no system call. When the daemon
//! itself sleeps, the pages of polled clients say so, too; they are polled again when it wakes.

use vrdma_adapter::Sending;
use vrdma_verbs::Time;
use vrdma_verbs::object::Owner;

use std::time::Duration;

use crate::Process;
use crate::context::Context;

/// How long a client is polled after its last doorbell. Being woken costs a microsecond or two; a look costs some
/// nanoseconds, once in each turn.
const POLLED_FOR: Duration = Duration::from_millis(2);

impl Process {
    /// Polls a client that has rung, or may have, while it was not polled: its doorbells are looked at in each turn
    /// from now on.
    pub fn poll_doorbells(&mut self, owner: Owner, now: Time) {
        let Some(context) = self.contexts.get_mut(owner.0) else {
            return;
        };
        context.rang = now;
        if !std::mem::replace(&mut context.polled, true) {
            context.doorbells.awake();
            self.polled.push(owner);
        }
    }

    /// Whether any client is polled.
    pub fn is_polled(&self) -> bool {
        !self.polled.is_empty()
    }

    /// Whether a polled client has rung, or was silent for so long that it is to be polled no more; or an object waits
    /// to be freed.
    pub fn has_rung(&self, now: Time) -> bool {
        let mut contexts = self.polled.iter().map(|owner| self.contexts.get(owner.0));
        let has_rung = |it: &Context| it.doorbells.has_rung() || now.since(it.rang) >= POLLED_FOR;
        self.core.hca.is_reaping() || contexts.any(|it| it.is_none_or(has_rung))
    }

    /// Says in the pages of polled clients that the daemon sleeps; false if one has rung meanwhile.
    pub fn sleep(&self) -> bool {
        let contexts = self.polled.iter();
        let contexts = contexts.filter_map(|owner| self.contexts.get(owner.0));
        // Every page must be marked, so there is no short cut.
        contexts
            .filter(|context| !context.doorbells.sleep())
            .count()
            == 0
    }

    /// Says in the pages of polled clients that nobody has to wake the daemon.
    pub fn awake(&self) {
        let contexts = self.polled.iter();
        contexts
            .filter_map(|owner| self.contexts.get(owner.0))
            .for_each(|context| context.doorbells.awake());
    }

    /// Takes the doorbells of polled clients; true if there were any.
    pub(crate) fn take_rung(&mut self, now: Time) -> bool {
        let mut rung = std::mem::take(&mut self.rung);
        let contexts = &mut self.contexts;
        self.polled.retain(|owner| {
            let Some(context) = contexts.get_mut(owner.0) else {
                return false;
            };
            let qps = &context.doorbell_qps;
            let rang = context
                .doorbells
                .take(|bit| rung.extend(qps.get(bit as usize).copied().flatten()));
            if rang {
                context.rang = now;
            } else if now.since(context.rang) >= POLLED_FOR {
                if context.doorbells.sleep() {
                    context.polled = false;
                } else {
                    // The client has rung just now.
                    context.doorbells.awake();
                }
            }
            context.polled
        });
        let any = !rung.is_empty();
        rung.drain(..).for_each(|id| self.wake(id));
        self.rung = rung;
        any
    }
}
