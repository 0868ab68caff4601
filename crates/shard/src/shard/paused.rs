//! Listeners that could not accept: without descriptors or memory the waiting client stays, and the listener stays
//! readable. So the listener is left alone for a while.
//!
//! ```text
//!   watched ── accept fails ──► paused ── 100 ms ──► watched
//! ```

use std::collections::VecDeque;
use std::fmt::Display;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use vrdma_verbs::Time;

use super::Shard;
use super::adapter::Adapter;
use super::poller::Key;

/// How long a pause takes: short for the waiting client, and ten attempts a second cost nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// Failures are logged once in this time, for all listeners together.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// The paused listeners. Each is a socket of ours, which bounds their number.
#[derive(Default)]
pub(super) struct Paused {
    /// In the order of the times when their pauses end.
    listeners: VecDeque<(Time, Key)>,
    told: Option<Time>,
}

impl Paused {
    /// When the first of them is watched again.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.listeners.front().map(|(until, _)| *until)
    }

    /// Whether a failure now is worth a log line.
    fn is_news(&mut self, now: Time) -> bool {
        let news = self.told.is_none_or(|told| now.since(told) >= TOLD_EVERY);
        if news {
            self.told = Some(now);
        }
        news
    }
}

impl Shard {
    /// Pauses a listener that could not accept.
    pub(super) fn pause(&mut self, key: Key, error: &dyn Display) {
        let now = self.clock.now();
        if self.paused.is_news(now) {
            tracing::warn!(
                "a client has to wait, since it cannot be accepted: {error}; `ulimit -n` bounds descriptors"
            );
        }
        if let Some(listener) = self.listener(key) {
            self.poller.mute(listener, key);
            self.paused.listeners.push_back((now + PAUSE, key));
        }
    }

    /// Watches listeners again whose pause is over.
    pub(super) fn end_pauses(&mut self, now: Time) {
        while self.paused.deadline().is_some_and(|until| until <= now)
            && let Some((_, key)) = self.paused.listeners.pop_front()
        {
            // Its adapter may be gone.
            if let Some(listener) = self.listener(key) {
                self.poller.rewatch(listener, key, false);
            }
        }
    }

    fn listener(&self, key: Key) -> Option<BorrowedFd<'_>> {
        match key {
            Key::ProcessListener(entrance) => self.sessions.listener(entrance),
            Key::Listener(port) => match self.host.member(port)? {
                Adapter::Vm(vm) => Some(vm.listener()),
                Adapter::Process { .. } => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_now_and_then() {
        let mut paused = Paused::default();
        let told = (0..1000).filter(|tenth: &u64| paused.is_news(Time(tenth * 100_000_000)));
        assert_eq!(told.count(), 10);
    }
}
