//! What an owner of rings does for the machine.

use vrdma_verbs::memory::Memory;
use vrdma_verbs::object::{CqId, QpId, SrqId};
use vrdma_verbs::work::{Completion, Event, RecvWr, SendWr};
use vrdma_verbs::{Reaped, Time};

use crate::core_state::{Core, RunState};
use crate::fair::Client;

/// What every step works with: the owner's memory, held still, and the time.
#[derive(Debug)]
pub struct Turn<'a, M> {
    /// A view of the adapter's own memory.
    pub memory: &'a M,
    /// The time of this turn.
    pub now: Time,
}

impl<M> Clone for Turn<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Turn<'_, M> {}

/// The rings of an adapter's owners. Objects are named by the engine's numbers; all methods ignore
/// numbers that they do not know.
///
/// An error of a ring fails the object that the ring belongs to: the machine calls `*_failed`, which
/// says whether the object was alive, and stops it in the engine.
pub trait FrontEnd {
    /// Names registered memory.
    type Region: Clone;
    /// A view of the owners' memory.
    type Memory<'m>: Memory<Region = Self::Region>;
    /// Why a ring failed.
    type Error: Copy;

    /// Whether the ring had no room, and what is in it is sound: it is shown before the queue stops.
    fn is_overflow(error: Self::Error) -> bool;

    /// The engine and the machine's state.
    fn core(&self) -> &Core<Self::Region>;

    /// The same, to work with it.
    fn core_mut(&mut self) -> &mut Core<Self::Region>;

    /// Where a queue pair is in the machine.
    fn run_state(&mut self, id: QpId) -> Option<&mut RunState>;

    /// Whom a queue pair belongs to.
    fn client_of(&self, id: QpId) -> Option<Client>;

    /// Takes doorbells and wakes the queue pairs that they are about; true if any was.
    fn take_doorbells(&mut self, turn: Turn<'_, Self::Memory<'_>>) -> bool;

    /// Does what became due since the last turn, such as writing again into a pipe or ring of events
    /// that was full; true if anything was done.
    fn run_deferred(&mut self, turn: Turn<'_, Self::Memory<'_>>) -> bool;

    /// When [`run_deferred`](Self::run_deferred) has something to do.
    fn deferred_until(&self) -> Option<Time>;

    /// Copies the next send request of a queue pair, if there is one.
    fn fetch_send(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: QpId,
    ) -> Result<Option<SendWr<Self::Region>>, Self::Error>;

    /// Copies the next receive of a queue pair's own ring, if there is one.
    fn fetch_recv(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: QpId,
    ) -> Result<Option<RecvWr>, Self::Error>;

    /// Copies the next receive of a shared ring, if there is one, and frees its slot.
    fn fetch_shared_recv(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: SrqId,
    ) -> Result<Option<RecvWr>, Self::Error>;

    /// Receives that a shared ring still holds, if its limit is armed.
    fn left_of_armed(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: SrqId,
    ) -> Result<Option<u32>, Self::Error>;

    /// The slots of so many of a queue pair's oldest send requests are free. Shown by
    /// [`publish_released`](Self::publish_released).
    fn release_sends(&mut self, id: QpId, count: u32);

    /// The slot of its oldest receive is free; false if there is nothing to be shown: slots of a shared ring may
    /// have been free as soon as they were copied.
    fn release_recv(&mut self, id: QpId) -> bool;

    /// Lets the owner use the slots that were released.
    fn publish_released(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: QpId,
    ) -> Result<(), Self::Error>;

    /// Writes an entry behind the producer index that the owner knows. True if it is the first one
    /// since [`publish_written`](Self::publish_written). `urgent` entries notify also owners that
    /// wait for solicited ones alone.
    ///
    /// A completion of a queue pair that is gone is dropped: one entry with a handle that the owner
    /// does not know stops it from polling that ring for ever.
    fn write_completion(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: CqId,
        completion: &Completion,
        urgent: bool,
    ) -> Result<bool, Self::Error>;

    /// Stores the producer index, then looks whether the owner wants to be notified: an owner that
    /// found the ring empty before that has armed it already.
    fn publish_written(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: CqId,
    ) -> Result<(), Self::Error>;

    /// Whether what is noted is recorded. If not, nothing is looked for to be noted.
    fn keeps_records(&self) -> bool {
        true
    }

    /// A queue pair has come further. Whoever goes on after this process with what was recorded has to know
    /// of it before anything of it is shown.
    fn note_progress(&mut self, _: QpId) {}

    /// Entries were written into a completion queue, in the same way.
    fn note_written(&mut self, _: CqId) {}

    /// What is behind a key has changed by a work request, in the same way: the slot of a window or of a
    /// fast-register region, which may be gone by now.
    fn note_key(&mut self, _: u32) {}

    /// Records everything that was noted, of all adapters of this thread: from now on it may be shown.
    fn commit(&mut self) {}

    /// Tells the owner about an event. [`Event::SrqLimitReached`] disarms the limit.
    fn post_event(&mut self, turn: Turn<'_, Self::Memory<'_>>, event: Event);

    /// The engine has freed an object of an owner that is gone: its other half goes, too.
    fn forget(&mut self, reaped: Reaped);

    /// A queue pair went to an error state, or failed.
    fn qp_stopped(&mut self, _: QpId) {}

    /// A queue pair in error has a turn: its rings are emptied until they stay empty.
    fn qp_flushing(&mut self, _: QpId) {}

    /// A queue pair's rings are unusable. False if it is gone or was failed before.
    fn qp_failed(&mut self, turn: Turn<'_, Self::Memory<'_>>, id: QpId, error: Self::Error)
    -> bool;

    /// The same of a completion queue.
    fn cq_failed(&mut self, turn: Turn<'_, Self::Memory<'_>>, id: CqId, error: Self::Error)
    -> bool;

    /// The same of a shared receive queue.
    fn srq_failed(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: SrqId,
        error: Self::Error,
    ) -> bool;
}
