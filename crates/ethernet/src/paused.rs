//! Listeners that could not accept. The clients stay, so the listeners stay readable: they are left alone for a while,
//! as a shard does with its own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use vrdma_switch::PortId;

const PAUSE: Duration = Duration::from_millis(100);

/// Failures are logged once in this time, for all listeners together.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Listeners that are paused, at most once each.
#[derive(Debug, Default)]
pub(super) struct Paused {
    /// In the order of the ends of their pauses.
    listeners: VecDeque<(Instant, PortId)>,
    told: Option<Instant>,
}

impl Paused {
    pub(super) fn add(&mut self, port: PortId) {
        self.listeners.push_back((Instant::now() + PAUSE, port));
    }

    /// Whether a failure now should be logged.
    pub(super) fn is_news(&mut self) -> bool {
        let news = self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY);
        if news {
            self.told = Some(Instant::now());
        }
        news
    }

    /// Returns a listener whose pause is over.
    pub(super) fn take_due(&mut self) -> Option<PortId> {
        let due = self.patience()?.is_zero();
        due.then(|| self.listeners.pop_front())?
            .map(|(_, port)| port)
    }

    /// Returns the time until the next pause ends.
    pub(super) fn patience(&self) -> Option<Duration> {
        let (until, _) = self.listeners.front()?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}
