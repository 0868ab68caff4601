//! The log of what adapters did: completions and events in order, and the lines of a trace.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use vrdma_verbs::Time;
use vrdma_verbs::work::Output;

use crate::trace::Trace;

#[derive(Default)]
struct Kept {
    now: Time,
    trace: Trace,
    outputs: VecDeque<(usize, Output)>,
    /// Adapters that did something that their owners were not told of.
    unshown: BTreeSet<usize>,
}

/// A handle of the log; everybody in a run has one.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Kept>>);

impl Log {
    pub(crate) fn new(trace: Trace) -> Self {
        let log = Self::default();
        log.0.borrow_mut().trace = trace;
        log
    }

    pub(crate) fn reach(&self, now: Time) {
        self.0.borrow_mut().now = now;
    }

    pub(crate) fn say(&self, line: impl FnOnce() -> String) {
        let kept = &mut *self.0.borrow_mut();
        kept.trace.say(kept.now, line);
    }

    /// Keeps a frame as its sender made it.
    pub(crate) fn keep(&self, frame: &[u8]) {
        let kept = &mut *self.0.borrow_mut();
        kept.trace.keep(kept.now, frame);
    }

    /// Notes that an adapter has done something.
    pub(crate) fn hand_out(&self, adapter: usize, output: Output) {
        let mut kept = self.0.borrow_mut();
        kept.outputs.push_back((adapter, output));
        kept.unshown.insert(adapter);
    }

    /// Notes that the owner of an adapter is told.
    pub(crate) fn show(&self, adapter: usize) {
        self.0.borrow_mut().unshown.remove(&adapter);
    }

    /// Returns an adapter whose owner was not told.
    pub(crate) fn unshown(&self) -> Option<usize> {
        self.0.borrow().unshown.first().copied()
    }

    /// Returns the next thing that was done.
    pub(crate) fn next_output(&self) -> Option<(usize, Output)> {
        self.0.borrow_mut().outputs.pop_front()
    }

    /// Returns the trace, which is over.
    pub(crate) fn take_trace(&self) -> Trace {
        std::mem::take(&mut self.0.borrow_mut().trace)
    }
}
