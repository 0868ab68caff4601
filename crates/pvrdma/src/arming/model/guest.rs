//! Guest threads. A step is one load from shared memory with the stores that follow it: putting a
//! store into the vCPU's own buffer is visible to nobody.

use super::super::CqDoorbell;
use super::Shared;

/// Stores that a vCPU holds back at most: enough for a consumer index, ARM and POLL to pass a load.
const STORE_BUFFER: usize = 3;

/// Stores that one step makes at most.
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
    /// Arm for any completion, which stays in force when armed for solicited ones too; drain, sleep.
    ArmBothDrainSleep,
    /// Poll until empty, arm, poll until empty, sleep.
    DrainArmDrainSleep,
    /// Arm, poll once; whether or not that took a completion, the arming is still good: sleep. Right
    /// only where each completion answers to the consumption of the one before.
    ArmTakeOneSleep,
}

impl Waiting {
    /// Those that sleep.
    pub(super) const SLEEPERS: [Self; 5] = [
        Self::ArmDrainSleep,
        Self::ArmSolicitedDrainSleep,
        Self::ArmBothDrainSleep,
        Self::DrainArmDrainSleep,
        Self::ArmTakeOneSleep,
    ];

    /// Arms at first and after each event, before it polls.
    fn arms_first(self) -> bool {
        !matches!(self, Self::Poll | Self::DrainArmDrainSleep)
    }
}

/// What the thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// Load the producer index; empty: write POLL.
    Look,
    /// Load it again.
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
    /// Armed since it last woke up.
    armed: bool,
    consumer: u32,
    /// Oldest first.
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

    /// Its completions are solicited.
    pub(super) fn is_solicited(&self) -> bool {
        self.idiom == Waiting::ArmSolicitedDrainSleep
    }

    /// The next completion comes only when the last one is consumed.
    pub(super) fn lock_step(&self) -> bool {
        self.idiom == Waiting::ArmTakeOneSleep
    }

    pub(super) fn sleeps(&self) -> bool {
        self.at == At::Sleep
    }

    /// Goes on; false when the thread can do nothing.
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

    /// The oldest store becomes visible.
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
