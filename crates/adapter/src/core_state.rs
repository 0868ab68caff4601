//! What every adapter holds, whatever its front end.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::fair::Ready;
use vrdma_verbs::object::{CqId, QpId};
use vrdma_verbs::packet::Train;
use vrdma_verbs::{Hca, Reaped};

/// The engine and the state of the machine around it. `R` names registered memory.
pub struct Core<R> {
    /// The engine.
    pub hca: Hca<R>,
    /// Payload of the longest unit between two adapters of this host.
    pub(crate) unit_bytes: u32,
    /// Queue pairs whose rings may hold something to fetch.
    pub(crate) run: RunQueue,
    /// Queue pairs for which the engine has units, where several compete.
    pub(crate) ready: Ready,
    /// Packets of a message that is coming in from a wire.
    pub(crate) train: Train<R>,
    /// Units handed out or taken in since the owners were last shown anything.
    pub(crate) unpublished_units: u32,
    /// Queue pairs with consumer indices that their owner has not been shown yet.
    pub(crate) released_qps: Vec<QpId>,
    /// Completion queues with entries that their owner has not been shown yet.
    pub(crate) written_cqs: Vec<CqId>,
    /// Progress that is still to be noted.
    pub(crate) to_note: ToNote,
    /// Objects freed in one step; empty between two steps, kept for its room.
    pub(crate) reaped: Vec<Reaped>,
}

impl<R: Clone> Core<R> {
    /// Makes an adapter that has nothing to do yet.
    pub fn new(hca: Hca<R>, unit_bytes: u32) -> Self {
        Self {
            hca,
            unit_bytes,
            run: RunQueue::default(),
            ready: Ready::default(),
            train: Train::default(),
            unpublished_units: 0,
            released_qps: Vec::new(),
            written_cqs: Vec::new(),
            to_note: ToNote::default(),
            reaped: Vec::new(),
        }
    }

    /// Whether queue pairs wait for a turn, or the engine has units of some.
    pub fn is_runnable(&self) -> bool {
        !self.run.is_empty() || !self.ready.is_empty() || self.hca.has_ready()
    }

    /// Whether a queue pair's owner is gone, so that nothing is taken from its rings any more.
    pub(crate) fn is_leaving(&self, id: QpId) -> bool {
        let owner = || self.hca.owner_of_qp(id);
        self.hca.is_reaping() && owner().is_some_and(|owner| self.hca.is_leaving(owner))
    }

    /// Whether something was written that its owner has not been shown.
    pub(crate) fn has_written(&self) -> bool {
        !self.released_qps.is_empty() || !self.written_cqs.is_empty()
    }

    /// Whether a batch has begun, so that [`Publishing::publish`](crate::Publishing::publish) has something to show.
    pub fn has_unpublished(&self) -> bool {
        self.unpublished_units > 0
    }
}

/// Queue pairs that wait for their turn, each once. A queue pair that goes leaves its entry behind, so that the other
/// entries need not be searched. The caller that pops an entry has to know whether its queue pair still waits. An entry
/// that was left behind gives its turn to a successor with the same number, whose own entry is then skipped.
#[derive(Default)]
pub(crate) struct RunQueue {
    entries: VecDeque<QpId>,
    /// Number of entries left behind: at most half of all entries after each departure, so that they do not pile up.
    dead: usize,
}

impl RunQueue {
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn push(&mut self, qp: QpId) {
        self.entries.push_back(qp);
    }

    pub(crate) fn pop(&mut self) -> Option<QpId> {
        self.entries.pop_front()
    }

    /// Notes that a popped entry did not wait any more.
    pub(crate) fn skipped(&mut self) {
        self.dead = self.dead.saturating_sub(1);
    }

    /// Notes that a waiting queue pair goes. True if too many entries were left behind: [take](Self::take_all) all, and
    /// push those that still wait.
    pub(crate) fn leave(&mut self) -> bool {
        self.dead += 1;
        self.dead > self.entries.len() / 2
    }

    pub(crate) fn take_all(&mut self) -> VecDeque<QpId> {
        core::mem::take(self).entries
    }
}

/// Queues that made progress with what was taken from the engine at once. Each is noted once, however many completions
/// it had. Empty between two calls, and kept for its room.
#[derive(Default)]
pub(crate) struct ToNote {
    pub(crate) qps: Vec<QpId>,
    pub(crate) cqs: Vec<CqId>,
}

impl ToNote {
    /// Adds a queue pair; mostly, several additions in a row are of the same one.
    pub(crate) fn qp(&mut self, id: QpId) {
        if self.qps.last() != Some(&id) {
            self.qps.push(id);
        }
    }

    pub(crate) fn cq(&mut self, id: CqId) {
        if self.cqs.last() != Some(&id) {
            self.cqs.push(id);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.qps.is_empty() && self.cqs.is_empty()
    }
}

/// State of a queue pair in the machine. The front end keeps it beside the queue pair's rings, so that finding one
/// finds the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunState {
    /// Whether it is in the run queue.
    pub(crate) queued: bool,
    /// Whether it competes for the next unit.
    pub(crate) ready: bool,
    /// Whether it has requests that the engine had no room for.
    pub(crate) starved: bool,
    /// Whether its consumer indices have moved since its owner was shown them.
    pub(crate) released: bool,
}

impl RunState {
    /// Whether it waits for a turn already.
    pub fn is_queued(&self) -> bool {
        self.queued
    }

    /// Starts afresh after a reset: no earlier request waits for room.
    pub fn restart(&mut self) {
        self.starved = false;
    }
}
