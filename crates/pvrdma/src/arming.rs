//! Decides when a completion queue's notification is due, although its doorbells are words in memory that overwrite
//! each other.
//!
//! All CQs of a user context share one 32-bit word. Writing `ARM` there asks for a notification, and
//! the `POLL` that rdma-core writes at each empty poll usually wipes it out before the device looks.
//! The device takes the word by exchanging it with 0, so it knows only which CQ the last word names, and that earlier
//! words may have been overwritten. Any word seen therefore makes every CQ of the page *maybe armed*, until that CQ is
//! notified.
//!
//! ```text
//!   publish a completion          armed, exactly seen ────────────────► notify
//!                                 maybe armed, a sleeper by habit ────► notify
//!                                 maybe armed, else ──► watch ──┐
//!                                 neither ──► unheard           │ deadline, consumer did not move ──► notify
//!   word seen, ring not empty ──────────────────────► watch ────┤ deadline, consumer moved ──► watch again
//!                                                               └ ring found empty ──► quiet
//! ```
//!
//! A watch gives the guest a moment to take its completions without being told. Only a notification ends the armed and
//! maybe-armed states: a guest that armed may consume a completion by polling, and sleep later because of the same
//! arming. So a notification can be superfluous but never missing; `model` tries all interleavings.
//!
//! With trapped doorbells every word arrives, in order: [`Touches`] stay 0, and the exact rules remain. This module
//! knows neither rings nor pages; it is told [`CqState`] and nothing else.

mod habit;

use core::time::Duration;

use vrdma_verbs::Time;

use habit::Habit;

/// How long a watch waits for a guest that seems awake: longer than poll loops take from one look at
/// the ring to the next, shorter than an unneeded interrupt costs the guest (about 100 us).
pub const PATIENCE: Duration = Duration::from_micros(32);

/// How long a watch waits if the guest has left the ring alone since the last notification. A guest that sleeps has
/// looked into the ring after arming, so this is a queue that is drained now and then, or a guest that arms without
/// looking: the former gets few interrupts, the latter a late one. The same goes for ordinary completions if the guest
/// arms for solicited ones: only a hidden ARM beside the other would care.
pub const STALLED_PATIENCE: Duration = Duration::from_millis(8);

/// How long a watch waits after an ARM while a completion is already there. The usual "arm, then look once more" finds
/// it, and some programs (perftest's `-e`) count a notification for a completion that they have already taken as a
/// message. Only a look that overtook its own ARM in the processor's store buffer needs this notification, so it may be
/// late; a virtual CPU that lost its core between the two steps is back sooner.
pub const ARM_PATIENCE: Duration = Duration::from_millis(20);

/// A word that names the CQ (`PVRDMA_UAR_CQ_*`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CqDoorbell {
    /// Notify at the next completion.
    Arm,
    /// Notify at the next solicited completion or error.
    ArmSolicited,
    /// The CQ was found empty.
    Poll,
}

/// Number of words taken out of one page: state shared by all CQs of the page. Stays 0 where doorbells are trapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Touches(u64);

impl Touches {
    /// Counts one more word that was not 0.
    pub fn touch(&mut self) {
        self.0 += 1;
    }
}

/// The device's view of a CQ at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqState {
    /// The guest's consumer index.
    pub consumer: u32,
    /// Whether everything published is consumed.
    pub empty: bool,
    /// Words seen in the CQ's page.
    pub touches: Touches,
}

/// What the device must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Verdict {
    /// Append the CQ to the notification ring and raise the vector.
    Notify,
    /// Call [`Arming::poll`] at this time or soon after; earlier does no harm.
    Wait(Time),
    /// No arming was seen, but a word that is still under way may be one: call [`Arming::page_touched`] at the next
    /// word in the page. Returned once until that call.
    Unheard,
    /// Nothing to do.
    Idle,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Armed {
    No,
    Solicited,
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Watch {
    deadline: Time,
    /// How long the watch waits again after each time that the guest has moved.
    patience: Duration,
    /// The guest's index when the watch began: if it moves, the guest is awake.
    consumer: u32,
    /// Whether a completion alone began the watch, so that its outcome tells the guest's habit.
    telling: bool,
}

/// State of one CQ.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Arming {
    /// The page's count at the last notification: if it differs now, an unseen ARM is possible.
    answered: Touches,
    /// The guest's index at the last notification.
    answered_at: Option<u32>,
    watch: Option<Watch>,
    habit: Habit,
    armed: Armed,
    /// Whether the last arming seen was for solicited completions.
    solicits: bool,
    unheard: bool,
}

impl Default for Arming {
    fn default() -> Self {
        Self::new()
    }
}

impl Arming {
    /// A new CQ: not armed, but maybe armed if its page has been touched before, which costs at most one unneeded
    /// notification.
    pub const fn new() -> Self {
        Self {
            answered: Touches(0),
            answered_at: None,
            watch: None,
            habit: Habit::new(),
            armed: Armed::No,
            solicits: false,
            unheard: false,
        }
    }

    /// Handles a word that names this CQ. In a mapped page the word has been counted in `state.touches`.
    pub fn rung(&mut self, word: CqDoorbell, state: CqState, now: Time) -> Verdict {
        match word {
            CqDoorbell::Poll => self.habit.polled(now),
            CqDoorbell::Arm => self.arm(Armed::Any, now),
            CqDoorbell::ArmSolicited => self.arm(Armed::Solicited, now),
        }
        self.look_again(state, now)
    }

    /// Handles any word in the page of this CQ after [`Verdict::Unheard`].
    pub fn page_touched(&mut self, state: CqState, now: Time) -> Verdict {
        self.unheard = false;
        self.look_again(state, now)
    }

    /// Handles a publication. `before` is the ring without the new completions, with the page looked at after they
    /// became visible; `urgent`: one of them is solicited or an error.
    pub fn published(&mut self, before: CqState, urgent: bool, now: Time) -> Verdict {
        if before.empty {
            self.consumed();
        }
        if self.armed == Armed::Any || (self.armed == Armed::Solicited && urgent) {
            return self.notify(before);
        }
        let awaited = self.solicits && urgent;
        if let Some(watch) = self.watch.filter(|_| !awaited) {
            return Verdict::Wait(watch.deadline);
        }
        if self.maybe_armed(before) {
            return self.guess(before, urgent, now);
        }
        self.overhear()
    }

    /// Checks a watch that may be due.
    pub fn poll(&mut self, state: CqState, now: Time) -> Verdict {
        if state.empty {
            self.consumed();
        }
        match self.watch {
            None => Verdict::Idle,
            Some(watch) if now < watch.deadline => Verdict::Wait(watch.deadline),
            Some(watch) if watch.consumer != state.consumer => {
                self.consumed();
                self.watch(state, watch.patience, watch.telling, now)
            }
            Some(watch) => {
                if watch.telling {
                    self.habit.overslept();
                }
                self.notify(state)
            }
        }
    }

    /// Time at which [`Self::poll`] is due.
    pub fn deadline(&self) -> Option<Time> {
        self.watch.map(|watch| watch.deadline)
    }

    fn arm(&mut self, armed: Armed, now: Time) {
        self.armed = self.armed.max(armed);
        self.solicits = armed == Armed::Solicited;
        self.habit.armed();
        if let Some(watch) = &mut self.watch {
            // A guest that arms is awake and about to look.
            watch.patience = ARM_PATIENCE;
            watch.deadline = now + ARM_PATIENCE;
            watch.telling = false;
        }
    }

    /// Handles a word: the guest may have armed after a completion that it had not seen yet. It is about to look, so a
    /// watch is better than a notification.
    fn look_again(&mut self, state: CqState, now: Time) -> Verdict {
        if let Some(watch) = self.watch {
            return Verdict::Wait(watch.deadline);
        }
        if state.empty || !self.wanted(state) {
            return Verdict::Idle;
        }
        self.watch(state, ARM_PATIENCE, false, now)
    }

    /// Guesses whether the owner of a maybe-armed CQ sleeps or polls.
    fn guess(&mut self, before: CqState, urgent: bool, now: Time) -> Verdict {
        let stalled = !before.empty && self.answered_at == Some(before.consumer);
        if stalled || (self.solicits && !urgent) {
            return self.watch(before, STALLED_PATIENCE, false, now);
        }
        match self.habit.patience(now) {
            None => self.notify(before),
            Some(patience) => self.watch(before, patience, true, now),
        }
    }

    fn watch(&mut self, state: CqState, patience: Duration, telling: bool, now: Time) -> Verdict {
        let deadline = now + patience;
        self.watch = Some(Watch {
            deadline,
            patience,
            consumer: state.consumer,
            telling,
        });
        Verdict::Wait(deadline)
    }

    fn consumed(&mut self) {
        if let Some(watch) = self.watch.take()
            && watch.telling
        {
            self.habit.consumed_in_time();
        }
    }

    fn notify(&mut self, state: CqState) -> Verdict {
        self.armed = Armed::No;
        self.answered = state.touches;
        self.answered_at = Some(state.consumer);
        self.watch = None;
        self.habit.notified();
        Verdict::Notify
    }

    fn overhear(&mut self) -> Verdict {
        if core::mem::replace(&mut self.unheard, true) {
            return Verdict::Idle;
        }
        Verdict::Unheard
    }

    fn maybe_armed(&self, state: CqState) -> bool {
        state.touches != self.answered
    }

    fn wanted(&self, state: CqState) -> bool {
        self.armed != Armed::No || self.maybe_armed(state)
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
