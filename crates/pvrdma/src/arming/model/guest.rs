//! Guest threads. A step is one load from shared memory with the stores that follow it: a store into the vCPU's own
//! buffer is visible to nobody else.

use super::super::CqDoorbell;
use super::Shared;

/// Most stores that a vCPU holds back: enough for a consumer index, ARM and POLL to pass a load.
const STORE_BUFFER: usize = 3;

/// Most stores of one step.
const STORES: usize = 2;

/// How a thread waits for completions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Waiting {
    /// Never arms; gives up when it finds nothing, so that the model is finite.
    Poll,
    /// Arm, poll until empty, sleep.
    ArmDrainSleep,
    /// The same for solicited completions.
    ArmSolicitedDrainSleep,
    /// Arm for any completion, which stays in force when solicited ones are armed too; drain, sleep.
    ArmBothDrainSleep,
    /// Poll until empty, arm, poll until empty, sleep.
    DrainArmDrainSleep,
    /// Arm, poll once, sleep: whether or not the poll took a completion, the arming is still good. Correct only if each
    /// completion waits for the consumption of the one before.
    ArmTakeOneSleep,
}

impl Waiting {
    /// All idioms that sleep.
    pub(super) const SLEEPERS: [Self; 5] = [
        Self::ArmDrainSleep,
        Self::ArmSolicitedDrainSleep,
        Self::ArmBothDrainSleep,
        Self::DrainArmDrainSleep,
        Self::ArmTakeOneSleep,
    ];

    /// Whether the thread arms at first and after each event, before it polls.
    fn arms_first(self) -> bool {
        !matches!(self, Self::Poll | Self::DrainArmDrainSleep)
    }
}

/// What the thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// Load the producer index; if the ring is empty, write POLL.
    Look,
    /// Load the producer index again.
    LookAgain,
    Sleep,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Store {
    Word(CqDoorbell),
    Consumer(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Thread {
    queue: usize,
    idiom: Waiting,
    at: At,
    /// Whether the thread has armed since it last woke up.
    armed: bool,
    consumer: u32,
    /// Stores, oldest first.
    store_buffer: [Option<Store>; STORE_BUFFER + STORES - 1],
}

impl Thread {
    pub(super) fn new(queue: usize, idiom: Waiting) -> Self {
        let mut thread = Self {
            queue,
            idiom,
            at: At::Look,
            armed: false,
            consumer: 0,
            store_buffer: [None; STORE_BUFFER + STORES - 1],
        };
        if idiom.arms_first() {
            thread.arm();
        }
        thread
    }

    /// Whether its completions are solicited.
    pub(super) fn is_solicited(&self) -> bool {
        self.idiom == Waiting::ArmSolicitedDrainSleep
    }

    /// Whether the next completion comes only after the last one is consumed.
    pub(super) fn lock_step(&self) -> bool {
        self.idiom == Waiting::ArmTakeOneSleep
    }

    pub(super) fn sleeps(&self) -> bool {
        self.at == At::Sleep
    }

    /// Makes one step; false if the thread can do nothing.
    pub(super) fn step(&mut self, shared: &mut Shared) -> bool {
        if self.store_buffer[STORE_BUFFER - 1].is_some() {
            return false;
        }
        let empty = shared.producer[self.queue] == self.consumer;
        match self.at {
            At::Look if empty => {
                self.store(Store::Word(CqDoorbell::Poll));
                self.at = At::LookAgain;
            }
            At::LookAgain if empty => self.found_nothing(),
            At::Look | At::LookAgain => self.consume(),
            At::Sleep if shared.event[self.queue] => {
                shared.event[self.queue] = false;
                self.wake();
            }
            At::Sleep | At::Done => return false,
        }
        true
    }

    /// Makes the oldest store visible.
    pub(super) fn drain(&mut self, shared: &mut Shared) -> bool {
        let Some(store) = self.store_buffer[0].take() else {
            return false;
        };
        self.store_buffer.rotate_left(1);
        match store {
            Store::Word(word) => shared.word = Some((self.queue, word)),
            Store::Consumer(index) => shared.consumer[self.queue] = index,
        }
        true
    }

    fn store(&mut self, store: Store) {
        let free = self.store_buffer.iter().position(Option::is_none);
        self.store_buffer[free.expect("a step begins with room for its stores")] = Some(store);
    }

    fn arm(&mut self) {
        if self.idiom != Waiting::ArmSolicitedDrainSleep {
            self.store(Store::Word(CqDoorbell::Arm));
        }
        if matches!(
            self.idiom,
            Waiting::ArmSolicitedDrainSleep | Waiting::ArmBothDrainSleep
        ) {
            self.store(Store::Word(CqDoorbell::ArmSolicited));
        }
        self.armed = true;
        self.at = At::Look;
    }

    fn wake(&mut self) {
        self.armed = false;
        self.at = At::Look;
        if self.idiom != Waiting::DrainArmDrainSleep {
            self.arm();
        }
    }

    fn consume(&mut self) {
        self.consumer += 1;
        self.store(Store::Consumer(self.consumer));
        self.at = match self.idiom {
            Waiting::ArmTakeOneSleep => At::Sleep,
            _ => At::Look,
        };
    }

    fn found_nothing(&mut self) {
        match self.idiom {
            Waiting::Poll => self.at = At::Done,
            Waiting::DrainArmDrainSleep if !self.armed => self.arm(),
            _ => self.at = At::Sleep,
        }
    }
}
