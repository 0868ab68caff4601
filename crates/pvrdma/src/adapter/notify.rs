//! Completion notifications: asking the arming rules, and carrying out their verdicts.
//!
//! [`crate::arming`] decides when a queue's owner is to be told, from the owner's consumer index and the number of
//! words seen in the doorbell page. This module has the page, the deadlines that the rules ask for, and the
//! notification ring.

use std::collections::BTreeSet;

use vrdma_adapter::Failing;
use vrdma_verbs::Time;
use vrdma_verbs::object::{CqId, Owner};

use super::{Adapter, Turn};
use crate::abi::event::NotifyEntry;
use crate::arming::{Arming, CqState, Touches, Verdict};
use crate::object::context::Contexts;

/// Most queues looked at in one poll: a few microseconds.
const WATCH_SLICE: usize = 64;

/// Queues to look at again, by time; each is in it at most once.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    due: BTreeSet<(Time, CqId)>,
}

impl Watch {
    /// Forgets a queue that is due at `at`.
    pub(crate) fn forget(&mut self, at: Option<Time>, id: CqId) {
        if let Some(at) = at {
            self.due.remove(&(at, id));
        }
    }

    /// Time at which the next queue is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    fn pop_due(&mut self, now: Time) -> Option<CqId> {
        self.deadline().filter(|at| *at <= now)?;
        self.due.pop_first().map(|(_, id)| id)
    }
}

impl Adapter {
    /// Carries out a verdict of the arming rules about a queue.
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

    /// Looks at a queue by `deadline`. An earlier entry stays: looking early does no harm, and moving entries costs.
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

    /// Waits for the next word in the page of a mapped queue. Of a trapped page each word arrives, so there is none to
    /// wait for.
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

    /// Shows the current state of a queue to the arming rules, and carries out their verdict.
    pub(crate) fn show(
        &mut self,
        turn: Turn<'_, '_>,
        id: CqId,
        look: impl FnOnce(&mut Arming, CqState) -> Verdict,
    ) {
        let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) else {
            return;
        };
        // The context is gone: its pages may belong to another one by now.
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

    /// Counts one more queue of a context.
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

    /// Time at which the next watched queue is due.
    pub(super) fn watch_deadline(&self) -> Option<Time> {
        self.watch.deadline()
    }
}

/// Number of words seen in the doorbell page of a context.
pub(super) fn touches(contexts: &mut Contexts, owner: Owner) -> Touches {
    contexts
        .get_mut(owner)
        .map_or(Touches::default(), |context| context.touches)
}
