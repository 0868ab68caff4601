//! What the machine asks of the front end that holds the owners' rings.

use vrdma_verbs::memory::Memory;
use vrdma_verbs::object::{CqId, QpId, SrqId};
use vrdma_verbs::work::{Completion, Event, RecvWr, SendWr};
use vrdma_verbs::{Reaped, Time};

use crate::core_state::{Core, RunState};
use crate::fair::Client;

/// Arguments of every step: a fixed view of the owner's memory, and the time.
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

/// The rings of an adapter's owners. Objects are named by the engine's numbers; all methods ignore unknown numbers.
///
/// An error of a ring fails the object that the ring belongs to: the machine calls `*_failed`, which
/// says whether the object was alive, and stops it in the engine.
pub trait FrontEnd {
    /// Name of registered memory.
    type Region: Clone;
    /// A view of the owners' memory.
    type Memory<'m>: Memory<Region = Self::Region>;
    /// Reason why a ring failed.
    type Error: Copy;

    /// Whether a ring failed only because it was full, with sound content: the content is shown before the queue stops.
    fn is_overflow(error: Self::Error) -> bool;

    /// Returns the engine and the machine's state.
    fn core(&self) -> &Core<Self::Region>;

    /// Returns the same, mutably.
    fn core_mut(&mut self) -> &mut Core<Self::Region>;

    /// Returns the state of a queue pair in the machine.
    fn run_state(&mut self, id: QpId) -> Option<&mut RunState>;

    /// Returns the user and the context that a queue pair belongs to.
    fn client_of(&self, id: QpId) -> Option<Client>;

    /// Takes doorbells and wakes the queue pairs that they are about; true if any was.
    fn take_doorbells(&mut self, turn: Turn<'_, Self::Memory<'_>>) -> bool;

    /// Does what became due since the last turn, such as writing again into a pipe or ring of events
    /// that was full; true if anything was done.
    fn run_deferred(&mut self, turn: Turn<'_, Self::Memory<'_>>) -> bool;

    /// Returns when [`run_deferred`](Self::run_deferred) has something to do.
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

    /// Returns how many receives a shared ring still holds, if its limit is armed.
    fn left_of_armed(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: SrqId,
    ) -> Result<Option<u32>, Self::Error>;

    /// Frees the slots of a queue pair's `count` oldest send requests. [`publish_released`](Self::publish_released)
    /// shows it.
    fn release_sends(&mut self, id: QpId, count: u32);

    /// Frees the slot of a queue pair's oldest receive. False if there is nothing to be shown: slots of a shared ring
    /// may be free as soon as they are copied.
    fn release_recv(&mut self, id: QpId) -> bool;

    /// Lets the owner use the released slots.
    fn publish_released(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: QpId,
    ) -> Result<(), Self::Error>;

    /// Writes an entry behind the producer index that the owner knows. True if it is the first one since
    /// [`publish_written`](Self::publish_written). An `urgent` entry also notifies owners that wait only for solicited
    /// ones.
    ///
    /// A completion of a queue pair that is gone is dropped: a single entry with a handle that the owner does not know
    /// would stop it from polling that ring for ever.
    fn write_completion(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: CqId,
        completion: &Completion,
        urgent: bool,
    ) -> Result<bool, Self::Error>;

    /// Stores the producer index, then checks whether the owner wants a notification: an owner that found the ring
    /// empty before the store has armed it already.
    fn publish_written(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: CqId,
    ) -> Result<(), Self::Error>;

    /// Whether notes are recorded. If not, nothing is searched for notes.
    fn keeps_records(&self) -> bool {
        true
    }

    /// Notes that a queue pair has made progress. A process that goes on from the records has to know of the progress
    /// before anything of it is shown.
    fn note_progress(&mut self, _: QpId) {}

    /// Notes, in the same way, that entries were written into a completion queue.
    fn note_written(&mut self, _: CqId) {}

    /// Notes, in the same way, that a work request has changed what is behind a key: the slot of a window or of a
    /// fast-register region, which may be gone by now.
    fn note_key(&mut self, _: u32) {}

    /// Records everything that was noted, for all adapters of this thread. From then on it may be shown.
    fn commit(&mut self) {}

    /// Tells the owner about an event. [`Event::SrqLimitReached`] disarms the limit.
    fn post_event(&mut self, turn: Turn<'_, Self::Memory<'_>>, event: Event);

    /// Frees the front end's half of an object that the engine has freed because its owner is gone.
    fn forget(&mut self, reaped: Reaped);

    /// Notes that a queue pair went to an error state, or failed.
    fn qp_stopped(&mut self, _: QpId) {}

    /// Notes that a queue pair in error has a turn: its rings are emptied until they stay empty.
    fn qp_flushing(&mut self, _: QpId) {}

    /// Marks a queue pair with unusable rings as failed. False if it is gone or has failed before.
    fn qp_failed(&mut self, turn: Turn<'_, Self::Memory<'_>>, id: QpId, error: Self::Error)
    -> bool;

    /// Does the same for a completion queue.
    fn cq_failed(&mut self, turn: Turn<'_, Self::Memory<'_>>, id: CqId, error: Self::Error)
    -> bool;

    /// Does the same for a shared receive queue.
    fn srq_failed(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: SrqId,
        error: Self::Error,
    ) -> bool;
}
