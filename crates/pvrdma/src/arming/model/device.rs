//! The device of the model: what `pvrdma` does around [`Arming`], and deliberate mistakes.
//!
//! There is no time: a deadline may pass at any moment. There is no learning: at each publication the habit may give
//! any answer, which includes all that it could have learnt.

use vrdma_verbs::Time;

use super::super::habit::Habit;
use super::super::{Armed, Arming, CqState, PATIENCE, Touches, Verdict};
use super::{QUEUES, Shared};

/// The one instant that stands for all.
const NOW: Time = Time(0);

/// When a publication looks at the page; both orders must work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Order {
    SwapLast,
    SwapFirst,
}

/// A deliberate mistake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Flaw {
    None,
    /// A word arms only the CQ that it names.
    DeafToThePage,
    /// Publishing uses up the arming, notified or not.
    ForgetsOnPublish,
    /// A completion taken by polling uses up the arming.
    ForgetsWhenConsumed,
    /// A word says nothing about completions published before it.
    IgnoresOlderCompletions,
    /// The deadline of a watch has no effect.
    DropsWatches,
}

impl Flaw {
    pub(super) const ALL: [Self; 5] = [
        Self::DeafToThePage,
        Self::ForgetsOnPublish,
        Self::ForgetsWhenConsumed,
        Self::IgnoresOlderCompletions,
        Self::DropsWatches,
    ];
}

/// How far a publication has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Publishing {
    /// The ring's fill was sampled.
    Sampled { consumer: u32, empty: bool },
    /// One of store and swap is done.
    Halfway { consumer: u32, empty: bool },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Device {
    arming: [Arming; QUEUES],
    unheard: [bool; QUEUES],
    touches: Touches,
    left: [u8; QUEUES],
    publishing: Option<(usize, Publishing)>,
    flaw: Flaw,
    order: Order,
}

impl Device {
    /// A device that has `completions` for each CQ.
    pub(super) fn new(completions: [u8; QUEUES], flaw: Flaw, order: Order) -> Self {
        Self {
            arming: [Arming::new(), Arming::new()],
            unheard: [false; QUEUES],
            touches: Touches::default(),
            left: completions,
            publishing: None,
            flaw,
            order,
        }
    }

    /// Looks at the page, between other steps of the device.
    pub(super) fn scan(&mut self, shared: &mut Shared) -> bool {
        self.publishing.is_none() && self.swap(shared)
    }

    pub(super) fn is_publishing(&self) -> bool {
        self.publishing.is_some()
    }

    /// Advances a publication by one step: the device is one thread, and the guest runs between its steps.
    pub(super) fn publish(
        &mut self,
        queue: usize,
        habit: Habit,
        urgent: bool,
        shared: &mut Shared,
    ) -> bool {
        let step = match self.publishing {
            None if self.left[queue] > 0 => None,
            Some((busy, step)) if busy == queue => Some(step),
            _ => return false,
        };
        self.publishing = match step {
            None => Some((queue, self.sample(queue, shared))),
            Some(Publishing::Sampled { consumer, empty }) => {
                self.store_or_swap(queue, shared, self.order == Order::SwapLast);
                Some((queue, Publishing::Halfway { consumer, empty }))
            }
            Some(Publishing::Halfway { consumer, empty }) => {
                self.store_or_swap(queue, shared, self.order == Order::SwapFirst);
                self.arming[queue].habit = habit;
                let before = CqState {
                    consumer,
                    empty,
                    touches: self.touches,
                };
                self.decide(queue, before, urgent, shared);
                None
            }
        };
        true
    }

    /// Lets the deadline of a watch pass.
    pub(super) fn deadline(&mut self, queue: usize, shared: &mut Shared) -> bool {
        let Some(deadline) = self.arming[queue].deadline() else {
            return false;
        };
        if self.publishing.is_some() {
            return false;
        }
        if self.flaw == Flaw::DropsWatches {
            self.arming[queue].watch = None;
            return true;
        }
        let state = self.state(queue, shared);
        let verdict = self.arming[queue].poll(state, deadline);
        if self.flaw == Flaw::ForgetsWhenConsumed && state.empty {
            self.forget(queue);
        }
        self.obey(queue, verdict, shared);
        true
    }

    fn sample(&mut self, queue: usize, shared: &Shared) -> Publishing {
        self.left[queue] -= 1;
        let consumer = shared.consumer[queue];
        let empty = consumer == shared.producer[queue];
        Publishing::Sampled { consumer, empty }
    }

    fn store_or_swap(&mut self, queue: usize, shared: &mut Shared, store: bool) {
        if store {
            shared.producer[queue] += 1;
        } else {
            self.swap(shared);
        }
    }

    fn decide(&mut self, queue: usize, before: CqState, urgent: bool, shared: &mut Shared) {
        let verdict = self.arming[queue].published(before, urgent, NOW);
        if self.flaw == Flaw::ForgetsOnPublish {
            self.forget(queue);
        }
        self.obey(queue, verdict, shared);
    }

    fn swap(&mut self, shared: &mut Shared) -> bool {
        let Some((named, word)) = shared.word.take() else {
            return false;
        };
        if self.flaw != Flaw::DeafToThePage {
            self.touches.touch();
            self.hear(shared);
        }
        let state = self.state(named, shared);
        let verdict = self.arming[named].rung(word, state, NOW);
        self.obey(named, verdict, shared);
        true
    }

    fn hear(&mut self, shared: &mut Shared) {
        for queue in 0..QUEUES {
            if std::mem::take(&mut self.unheard[queue]) {
                let state = self.state(queue, shared);
                let verdict = self.arming[queue].page_touched(state, NOW);
                self.obey(queue, verdict, shared);
            }
        }
    }

    fn state(&self, queue: usize, shared: &Shared) -> CqState {
        let consumer = shared.consumer[queue];
        let blind =
            self.flaw == Flaw::IgnoresOlderCompletions && self.arming[queue].watch.is_none();
        CqState {
            consumer,
            empty: blind || consumer == shared.producer[queue],
            touches: self.touches,
        }
    }

    fn obey(&mut self, queue: usize, verdict: Verdict, shared: &mut Shared) {
        match verdict {
            Verdict::Notify => shared.event[queue] = true,
            Verdict::Unheard => self.unheard[queue] = true,
            Verdict::Wait(_) | Verdict::Idle => {}
        }
    }

    /// Makes states equal that can only behave equally.
    pub(super) fn forget_differences(&mut self) {
        for arming in &mut self.arming {
            arming.habit = Habit::new();
            arming.answered = Touches(u64::from(arming.answered == self.touches));
            if let Some(watch) = &mut arming.watch {
                watch.deadline = NOW + PATIENCE;
                watch.telling = false;
            }
        }
        self.touches = Touches(1);
    }

    fn forget(&mut self, queue: usize) {
        self.arming[queue].armed = Armed::No;
        self.arming[queue].answered = self.touches;
    }
}
