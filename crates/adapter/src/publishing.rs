//! The way of the engine's outputs to the owners.
//!
//! The order is fixed: payload (the engine has moved it), consumer indices of work queues, completion
//! entries, their producer index, notification. A program with a queue of one posts again right after
//! it polled, so the slot must be free before the completion can be seen.
//!
//! Owners are shown changes in batches: their cache lines are on another core, and showing each completion on its own
//! would cost more than everything else.

use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::{CqId, QpId};
use vrdma_verbs::work::{Completion, Event, Output, Status};

use crate::core_state::ToNote;
use crate::front_end::{FrontEnd, Turn};
use crate::{Failing, Sending};

/// Units handed out or taken in before the owners are shown their effects: a few us of work.
const UNITS_PER_BATCH: u32 = 64;

/// The way from the engine to the owners, for every front end.
pub trait Publishing: FrontEnd {
    /// Counts a unit that was taken in: the owner sees its effects with the batch.
    fn publish_soon(&mut self, turn: Turn<'_, Self::Memory<'_>>) {
        let core = self.core_mut();
        core.unpublished_units += 1;
        if core.unpublished_units >= UNITS_PER_BATCH {
            self.publish(turn);
        }
    }

    /// Ends a batch, if one has begun.
    fn end_batch(&mut self, turn: Turn<'_, Self::Memory<'_>>) {
        if self.core().has_unpublished() {
            self.publish(turn);
        }
    }

    /// Takes all outputs of the engine and shows them to the owners. The effects of units are committed even if no
    /// owner is to see any of them: the answers leave the host after this.
    fn publish(&mut self, turn: Turn<'_, Self::Memory<'_>>) {
        let mut noted = core::mem::take(&mut self.core_mut().unpublished_units) > 0;
        loop {
            self.write_outputs(turn);
            let written = self.core().has_written();
            if written || core::mem::take(&mut noted) {
                self.commit();
            }
            if !written {
                return;
            }
            // A ring that turns out to be unusable causes more outputs of the engine.
            publish_batch(self, turn);
        }
    }

    /// Takes all outputs of the engine, and writes them where the owners do not see them yet. They are noted together
    /// with the progress of their queue pairs before this returns: another adapter may commit at any time after that.
    #[inline]
    fn write_outputs(&mut self, turn: Turn<'_, Self::Memory<'_>>) {
        self.take_outputs(turn);
        self.note();
    }

    /// Does the first half of [`write_outputs`](Self::write_outputs): nothing is noted, so nothing may be shown yet.
    #[inline]
    fn take_outputs(&mut self, turn: Turn<'_, Self::Memory<'_>>) {
        // Most units that are taken in complete nothing on this side.
        if self.core().hca.has_output() {
            take_all(self, turn);
        }
    }

    /// Does the second half: notes the progress of all queues that made some.
    #[inline]
    fn note(&mut self) {
        if !self.core().to_note.is_empty() {
            note_all(self);
        }
    }
}

impl<F: FrontEnd + ?Sized> Publishing for F {}

#[inline(never)]
fn take_all<F: FrontEnd + ?Sized>(front: &mut F, turn: Turn<'_, F::Memory<'_>>) {
    while let Some(output) = front.core_mut().hca.poll_output() {
        take_output(front, turn, output);
    }
    front.core_mut().hca.forget_enclosed();
    if !front.keeps_records() {
        front.core_mut().hca.forget_changed_keys();
    }
}

#[inline(never)]
fn note_all<F: FrontEnd + ?Sized>(front: &mut F) {
    let mut to_note = core::mem::take(&mut front.core_mut().to_note);
    to_note.qps.drain(..).for_each(|id| front.note_progress(id));
    to_note.cqs.drain(..).for_each(|id| front.note_written(id));
    front.core_mut().to_note = to_note;
    while let Some(slot) = front.core_mut().hca.take_changed_key() {
        front.note_key(slot);
    }
}

fn take_output<F: FrontEnd + ?Sized>(front: &mut F, turn: Turn<'_, F::Memory<'_>>, output: Output) {
    match output {
        Output::SendDone {
            qp,
            count,
            cq,
            completion,
        } => {
            release_sends(front, qp, count);
            if let Some(completion) = completion {
                complete(front, turn, cq, &completion);
            }
            note_later(front, |to_note| to_note.qp(qp));
        }
        Output::RecvDone { cq, completion } => {
            if front.release_recv(completion.qp) {
                publish_later(front, completion.qp);
            }
            complete(front, turn, cq, &completion);
            note_later(front, |to_note| to_note.qp(completion.qp));
        }
        Output::Event(event) => announce(front, turn, event),
    }
}

/// Adds progress that is to be noted, unless no records are kept.
#[inline]
fn note_later<F: FrontEnd + ?Sized>(front: &mut F, add: impl FnOnce(&mut ToNote)) {
    if front.keeps_records() {
        add(&mut front.core_mut().to_note);
    }
}

/// Frees the slots of the oldest send requests, after which the engine has room for others.
fn release_sends<F: FrontEnd + ?Sized>(front: &mut F, id: QpId, count: u32) {
    front.release_sends(id, count);
    let Some(state) = front.run_state(id) else {
        return;
    };
    if core::mem::take(&mut state.starved) {
        front.wake(id);
    }
    publish_later(front, id);
}

/// Remembers that consumer indices of the queue pair have moved.
fn publish_later<F: FrontEnd + ?Sized>(front: &mut F, id: QpId) {
    if let Some(state) = front.run_state(id)
        && !core::mem::replace(&mut state.released, true)
    {
        front.core_mut().released_qps.push(id);
    }
}

fn complete<F: FrontEnd + ?Sized>(
    front: &mut F,
    turn: Turn<'_, F::Memory<'_>>,
    id: CqId,
    completion: &Completion,
) {
    let failed = completion.status != Status::Success;
    let urgent = completion.solicited || failed;
    match front.write_completion(turn, id, completion, urgent) {
        Ok(first) => {
            if first {
                front.core_mut().written_cqs.push(id);
            }
            note_later(front, |to_note| to_note.cq(id));
        }
        Err(error) => front.fail_cq(turn, id, error),
    }
    if failed {
        flush_later(front, completion.qp);
    }
}

/// Flushes the rings of a queue pair that an error may have stopped.
fn flush_later<F: FrontEnd + ?Sized>(front: &mut F, id: QpId) {
    if let Some(QpState::Err | QpState::Sqe) = front.core().hca.qp_state(id) {
        front.qp_stopped(id);
        front.wake(id);
    }
}

fn announce<F: FrontEnd + ?Sized>(front: &mut F, turn: Turn<'_, F::Memory<'_>>, event: Event) {
    if let Event::QpFatal(id) | Event::QpRequestError(id) | Event::QpAccessError(id) = event {
        flush_later(front, id);
        front.note_progress(id);
    }
    front.post_event(turn, event);
}

/// Shows the owners the whole batch.
fn publish_batch<F: FrontEnd + ?Sized>(front: &mut F, turn: Turn<'_, F::Memory<'_>>) {
    while let Some(id) = front.core_mut().released_qps.pop() {
        if let Some(state) = front.run_state(id) {
            state.released = false;
        }
        if let Err(error) = front.publish_released(turn, id) {
            front.fail_qp(turn, id, error);
        }
    }
    while let Some(id) = front.core_mut().written_cqs.pop() {
        if let Err(error) = front.publish_written(turn, id) {
            front.fail_cq(turn, id, error);
        }
    }
}
