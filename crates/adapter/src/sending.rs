//! From send rings to requests.
//!
//! Queue pairs with something to fetch wait in the run queue. In each turn, a queue pair's ring gives up a small batch,
//! so that a long ring holds up nobody. The same turns empty the rings of queue pairs in error: the engine hands every
//! request straight back as flushed.

use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::QpId;
use vrdma_verbs::packet::Reply;
use vrdma_verbs::unit::{Request, RequestOp};
use vrdma_verbs::{Paths, Time};

use crate::fair;
use crate::front_end::{FrontEnd, Turn};
use crate::{Failing, Publishing, Receiving};

/// Requests fetched in one turn of a queue pair: enough to pay for the turn, a few microseconds.
const FETCH_BATCH: u32 = 16;

/// Turns within one call: the bound of a call that finds nothing to send.
const TURNS_A_CALL: usize = 16;

/// Steps of one poll that free objects of departed owners. Freeing a region that is a mapped file takes some
/// microseconds.
const REAPED_A_POLL: u32 = 32;

/// Turns of queue pairs in one poll.
const TURNS_A_POLL: usize = 4;

/// The requester's side of the machine, for every front end.
pub trait Sending: FrontEnd {
    /// Gives the queue pair a turn.
    fn wake(&mut self, id: QpId) {
        if let Some(state) = self.run_state(id)
            && !core::mem::replace(&mut state.queued, true)
        {
            self.core_mut().run.push(id);
        }
    }

    /// Forgets the turn of a queue pair that goes, so that the run queue is never longer than twice its table. Call it
    /// while the queue pair's state is still there.
    fn forget_turn(&mut self, id: QpId) {
        if takes_turn(self, id) && self.core_mut().run.leave() {
            compact(self);
        }
    }

    /// Frees some objects of departed owners; true while there are more.
    fn reap(&mut self) -> bool {
        let mut freed = core::mem::take(&mut self.core_mut().reaped);
        let more = self
            .core_mut()
            .hca
            .reap(REAPED_A_POLL, |reaped| freed.push(reaped));
        freed.drain(..).for_each(|reaped| self.forget(reaped));
        self.core_mut().reaped = freed;
        more
    }

    /// Looks at doorbells, timers and deferred work; true if anything was done or is still to be done at once.
    fn poll(&mut self, turn: Turn<'_, Self::Memory<'_>>) -> bool {
        let mut busy = self.take_doorbells(turn);
        busy |= self.run_timers(turn);
        busy |= self.run_deferred(turn);
        if self.core().hca.is_reaping() {
            busy |= self.reap();
        }
        for _ in 0..TURNS_A_POLL {
            busy |= self.run_one(turn);
        }
        busy || self.core().is_runnable()
    }

    /// Returns when [`poll`](Self::poll) has something to do without a doorbell.
    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.core().hca.next_deadline(), self.deferred_until()];
        deadlines.into_iter().flatten().min()
    }

    /// Makes the next request unit of any queue pair. `None` may also mean that the work found was not to be sent;
    /// [`Core::is_runnable`](crate::Core::is_runnable) tells.
    ///
    /// A datagram is complete as soon as the engine has handed it out, but its payload is read when it is delivered. So
    /// the effects of a unit are published by a later call, after its delivery.
    fn next_request(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        paths: &mut impl Paths,
    ) -> Option<Request<Self::Region>> {
        for _ in 0..TURNS_A_CALL {
            while let Some(id) = self.core_mut().hca.next_ready() {
                let core = self.core();
                // Each case returns at once: a request is large, and is made in the caller's place.
                if !core.ready.is_empty() || core.hca.has_ready() {
                    if let Some(request) = compete(self, turn, id, paths) {
                        return Some(request);
                    }
                } else if let Some(request) = transmit(self, turn, id, u32::MAX, paths) {
                    return Some(request);
                }
            }
            if let Some(request) = next_competitor(self, turn, paths) {
                return Some(request);
            }
            self.publish(turn);
            if !self.run_one(turn) {
                return None;
            }
        }
        None
    }

    /// Makes the next reply for a peer behind a wire, see [`Hca::poll_reply`](vrdma_verbs::Hca::poll_reply).
    fn next_reply(&mut self, now: Time, paths: &mut impl Paths) -> Option<Reply<Self::Region>> {
        self.core_mut().hca.poll_reply(now, paths)
    }

    /// Notes that a path that was full takes units again.
    fn path_has_room(&mut self) {
        self.core_mut().hca.path_has_room();
    }

    /// Gives one queue pair its turn; false if none waits.
    fn run_one(&mut self, turn: Turn<'_, Self::Memory<'_>>) -> bool {
        let Some(id) = next_turn(self) else {
            return false;
        };
        if self.core().is_leaving(id) {
            return true;
        }
        match self.core().hca.qp_state(id) {
            Some(QpState::Rts | QpState::Sqe) => fetch_sends(self, turn, id),
            Some(QpState::Err) => {
                self.qp_flushing(id);
                fetch_sends(self, turn, id);
                flush_receives(self, turn, id);
            }
            _ => {}
        }
        self.publish(turn);
        true
    }

    /// Lets the engine do what became due; true if anything was.
    fn run_timers(&mut self, turn: Turn<'_, Self::Memory<'_>>) -> bool {
        let hca = &mut self.core_mut().hca;
        let due = hca
            .next_deadline()
            .is_some_and(|deadline| deadline <= turn.now);
        if due {
            hca.handle_timeout(turn.now);
            self.publish(turn);
        }
        due
    }
}

impl<F: FrontEnd + ?Sized> Sending for F {}

/// Takes the first queue pair that still waits for its turn.
fn next_turn<F: FrontEnd + ?Sized>(front: &mut F) -> Option<QpId> {
    while let Some(id) = front.core_mut().run.pop() {
        if takes_turn(front, id) {
            return Some(id);
        }
        front.core_mut().run.skipped();
    }
    None
}

/// Ends a queue pair's wait for a turn; whether it was waiting.
fn takes_turn<F: FrontEnd + ?Sized>(front: &mut F, id: QpId) -> bool {
    let state = front.run_state(id);
    state.is_some_and(|state| core::mem::take(&mut state.queued))
}

/// Removes entries that were left behind. At most twice as many entries are looked at as were left since the last time.
#[cold]
fn compact<F: FrontEnd + ?Sized>(front: &mut F) {
    let mut entries = front.core_mut().run.take_all();
    entries.retain(|id| takes_turn(front, *id));
    entries.into_iter().for_each(|id| front.wake(id));
}

/// Makes the next unit of a queue pair, of at most `unit_bytes`.
#[inline(always)]
fn transmit<F: FrontEnd + ?Sized>(
    front: &mut F,
    turn: Turn<'_, F::Memory<'_>>,
    id: QpId,
    unit_bytes: u32,
    paths: &mut impl Paths,
) -> Option<Request<F::Region>> {
    let core = front.core_mut();
    core.unpublished_units += 1;
    let unit_bytes = unit_bytes.min(core.unit_bytes);
    core.hca.poll_transmit(id, turn.now, unit_bytes, paths)
}

/// Lets several queue pairs with units compete: all that the engine names take part in the rounds.
#[cold]
fn compete<F: FrontEnd + ?Sized>(
    front: &mut F,
    turn: Turn<'_, F::Memory<'_>>,
    first: QpId,
    paths: &mut impl Paths,
) -> Option<Request<F::Region>> {
    let mut next = Some(first);
    while let Some(id) = next {
        let client = front.client_of(id);
        let state = front.run_state(id);
        if let Some((client, state)) = client.zip(state)
            && !core::mem::replace(&mut state.ready, true)
        {
            front.core_mut().ready.push(client, id);
        }
        next = front.core_mut().hca.next_ready();
    }
    next_competitor(front, turn, paths)
}

/// Makes the next unit of the queue pair whose turn it is.
fn next_competitor<F: FrontEnd + ?Sized>(
    front: &mut F,
    turn: Turn<'_, F::Memory<'_>>,
    paths: &mut impl Paths,
) -> Option<Request<F::Region>> {
    while let Some((client, id)) = front.core_mut().ready.pop() {
        // A queue pair that is gone meanwhile has left its entry behind.
        let state = front.run_state(id);
        if !state.is_some_and(|state| core::mem::take(&mut state.ready)) {
            continue;
        }
        if let Some(request) = transmit(front, turn, id, fair::QUANTUM as u32, paths) {
            front.core_mut().ready.charge(client, id, moved(&request));
            return Some(request);
        }
    }
    None
}

/// Returns the bytes that a unit moves, in either direction.
fn moved<R>(request: &Request<R>) -> u64 {
    match request.op {
        RequestOp::Read { length, .. } => length.into(),
        _ => request.payload.length(),
    }
}

fn fetch_sends<F: FrontEnd + ?Sized>(front: &mut F, turn: Turn<'_, F::Memory<'_>>, id: QpId) {
    let room = front.core().hca.send_room(id);
    for _ in 0..room.min(FETCH_BATCH) {
        match fetch_send(front, turn, id) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return front.fail_qp(turn, id, error),
        }
    }
    match front.run_state(id) {
        Some(state) if room == 0 => state.starved = true,
        _ => front.wake(id),
    }
}

/// Moves one request from the queue pair's ring into the engine, if there is one.
#[inline]
fn fetch_send<F: FrontEnd + ?Sized>(
    front: &mut F,
    turn: Turn<'_, F::Memory<'_>>,
    id: QpId,
) -> Result<bool, F::Error> {
    match front.fetch_send(turn, id) {
        Ok(Some(request)) => {
            // Room was asked for and the state takes work, so the engine cannot refuse.
            let posted = front.core_mut().hca.post_send(id, request);
            debug_assert_eq!(posted, Ok(()), "the engine had room");
            Ok(true)
        }
        Ok(None) => Ok(false),
        Err(error) => Err(error),
    }
}

fn flush_receives<F: FrontEnd + ?Sized>(front: &mut F, turn: Turn<'_, F::Memory<'_>>, id: QpId) {
    for _ in 0..FETCH_BATCH {
        match front.stage_own(turn, id) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return front.fail_qp(turn, id, error),
        }
    }
    front.wake(id);
}
