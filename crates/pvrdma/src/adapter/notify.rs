//! Completion notifications: what the arming rules are shown, and doing what they say.
//!
//! [`crate::arming`] decides when a queue's owner is to be told. It is shown the owner's consumer
//! index and how often the doorbell page was touched; here are the page, the deadlines that it
//! asks for, and the notification ring.

use std::collections::BTreeSet;

use vrdma_adapter::Failing;
use vrdma_verbs::Time;
use vrdma_verbs::object::{CqId, Owner};

use super::{Adapter, Turn};
use crate::abi::event::NotifyEntry;
use crate::arming::{Arming, CqState, Touches, Verdict};
use crate::object::context::Contexts;

/// Queues looked at in one poll: a few microseconds.
const WATCH_SLICE: usize = 64;

/// When to look again at which queue; each is in it at most once.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    due: BTreeSet<(Time, CqId)>,
}

impl Watch {
    /// Forgets a queue whose entry is at `at`.
    pub(crate) fn forget(&mut self, at: Option<Time>, id: CqId) {
        if let Some(at) = at {
            self.due.remove(&(at, id));
        }
    }

    /// When the next of them is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    fn pop_due(&mut self, now: Time) -> Option<CqId> {
        self.deadline().filter(|at| *at <= now)?;
        self.due.pop_first().map(|(_, id)| id)
    }
}

impl Adapter {
    /// Does what the arming rules said about a queue.
    pub(super) fn obey(&mut self, turn: Turn<'_, '_>, id: CqId, verdict: Verdict) {
        match verdict {
            Verdict::Notify => {
                self.notifications.offer(NotifyEntry { cq: id.0.into() });
                self.flush_notifications(turn);
            }
            Verdict::Wait(deadline) => self.watch_by(id, deadline),
            Verdict::Unheard => self.wait_for_word(id),
            Verdict::Idle => {}
        }
    }

    /// An earlier entry stays: looking early does no harm, and moving entries costs.
    fn watch_by(&mut self, id: CqId, deadline: Time) {
        let Some(cq) = self.cqs.get_mut(id.0) else {
            return;
        };
        if cq.watched_at.is_none_or(|at| at > deadline) {
            self.watch.forget(cq.watched_at, id);
            cq.watched_at = Some(deadline);
            self.watch.due.insert((deadline, id));
        }
    }

    /// Words of trapped pages all arrive: there is none to wait for.
    fn wait_for_word(&mut self, id: CqId) {
        if self.doorbell_pages.is_some()
            && let Some(cq) = self.cqs.get(id.0)
            && let Some(context) = self.contexts.get_mut(cq.owner)
        {
            context.unheard.push(id);
        }
    }

    /// Asks the arming rules about the queues that are due; true if there were any.
    pub(super) fn look_at_watched(&mut self, turn: Turn<'_, '_>) -> bool {
        for looked in 0..WATCH_SLICE {
            let Some(id) = self.watch.pop_due(turn.now) else {
                return looked > 0;
            };
            if let Some(cq) = self.cqs.get_mut(id.0) {
                cq.watched_at = None;
            }
            self.show(turn, id, |arming, state| arming.poll(state, turn.now));
        }
        true
    }

    /// Shows a queue to the arming rules as it is now, and does what they say.
    pub(crate) fn show(
        &mut self,
        turn: Turn<'_, '_>,
        id: CqId,
        look: impl FnOnce(&mut Arming, CqState) -> Verdict,
    ) {
        let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) else {
            return;
        };
        // Of a context that is gone: its pages may be another's by now.
        if !self.contexts.contains(cq.owner) {
            return;
        }
        let touches = touches(&mut self.contexts, cq.owner);
        match cq.state(turn.memory, touches) {
            Ok(state) => {
                let verdict = look(&mut cq.arming, state);
                self.obey(turn, id, verdict);
            }
            Err(error) => self.fail_cq(turn, id, error),
        }
    }

    /// A context got another queue.
    pub(crate) fn count_cq(&mut self, owner: Owner) {
        if let Some(context) = self.contexts.get_mut(owner) {
            context.cqs += 1;
        }
    }

    /// Forgets a queue that is gone.
    pub(crate) fn forget_notifications(&mut self, id: CqId, watched_at: Option<Time>) {
        self.watch.forget(watched_at, id);
        self.notifications.retain(|entry| entry.cq.get() != id.0);
    }

    /// When a watched queue is due.
    pub(super) fn watch_deadline(&self) -> Option<Time> {
        self.watch.deadline()
    }
}

/// How often the doorbell page of a context was touched.
pub(super) fn touches(contexts: &mut Contexts, owner: Owner) -> Touches {
    contexts
        .get_mut(owner)
        .map_or(Touches::default(), |context| context.touches)
}
