//! What comes out of the engine, on its way to the owners.
//!
//! The order is fixed: payload (the engine has moved it), consumer indices of work queues, completion
//! entries, their producer index, notification. A program with a queue of one posts again right after
//! it polled, so the slot must be free before the completion can be seen.
//!
//! Owners are shown what happened in batches: with their cache lines on another core, showing every
//! completion on its own would cost more than all the rest.

use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::{CqId, QpId};
use vrdma_verbs::work::{Completion, Event, Output, Status};

use crate::core_state::ToNote;
use crate::front_end::{FrontEnd, Turn};
use crate::{Failing, Sending};

/// Units handed out or taken in before the owners are shown what they did: a few us of work.
const UNITS_PER_BATCH: u32 = 64;

/// The way from the engine to the owners, for every front end.
pub trait Publishing: FrontEnd {
    /// A unit was taken in: the owner sees what it did with the batch.
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

    /// Takes everything that the engine has to say and shows it to the owners. What units did is committed, too, if no
    /// owner is to see anything of it: their answers leave the host after this.
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
            // A ring that turns out to be unusable makes the engine say more.
            publish_batch(self, turn);
        }
    }

    /// Takes everything that the engine has to say, and writes it where the owners do not see it yet. What was
    /// written is noted together with how far its queue pair has come, before this ends: another adapter may commit
    /// at any time after it.
    #[inline]
    fn write_outputs(&mut self, turn: Turn<'_, Self::Memory<'_>>) {
        self.take_outputs(turn);
        self.note();
    }

    /// The first half of [`write_outputs`](Self::write_outputs): nothing is noted, so nobody may hear of it yet.
    #[inline]
    fn take_outputs(&mut self, turn: Turn<'_, Self::Memory<'_>>) {
        // Most units that are taken in complete nothing here.
        if self.core().hca.has_output() {
            take_all(self, turn);
        }
    }

    /// The second half: how far everything has come that came further.
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

/// Something came further, which nobody writes down where there are no records.
#[inline]
fn note_later<F: FrontEnd + ?Sized>(front: &mut F, add: impl FnOnce(&mut ToNote)) {
    if front.keeps_records() {
        add(&mut front.core_mut().to_note);
    }
}

/// The slots of the oldest send requests are free, and the engine has room for others.
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

/// Consumer indices of the queue pair have moved.
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

/// An error may have stopped the queue pair: what its rings hold has to be flushed.
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

/// Shows the owners everything of the batch.
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
