//! A clock that stands still until a test moves it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use vrdma_verbs::Time;

/// Shared by everything in one test.
#[derive(Clone, Debug, Default)]
pub struct Clock(Rc<Cell<Time>>);

impl Clock {
    /// Now.
    pub fn now(&self) -> Time {
        self.0.get()
    }

    /// Moves on.
    pub fn pass(&self, time: Duration) {
        self.0.set(self.now() + time);
    }

    /// Moves on to `time`, unless that is over.
    pub fn reach(&self, time: Time) {
        self.0.set(self.now().max(time));
    }
}
