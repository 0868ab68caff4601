//! A clock that only tests advance.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use vrdma_verbs::Time;

/// A clock, shared by everything in one test.
#[derive(Clone, Debug, Default)]
pub struct Clock(Rc<Cell<Time>>);

impl Clock {
    /// The current time.
    pub fn now(&self) -> Time {
        self.0.get()
    }

    /// Advances the clock by `time`.
    pub fn pass(&self, time: Duration) {
        self.0.set(self.now() + time);
    }

    /// Advances the clock to `time`, unless that has passed.
    pub fn reach(&self, time: Time) {
        self.0.set(self.now().max(time));
    }
}
