//! Listeners that could not accept: who waits there stays, and they stay readable. They are left alone
//! for a while, as the shard leaves its own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use vrdma_switch::PortId;

const PAUSE: Duration = Duration::from_millis(100);

/// Failures are told once in this time, for all listeners together.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Those that are paused, at most once each.
#[derive(Debug, Default)]
pub(super) struct Paused {
    /// In the order of their times.
    listeners: VecDeque<(Instant, PortId)>,
    told: Option<Instant>,
}

impl Paused {
    pub(super) fn add(&mut self, port: PortId) {
        self.listeners.push_back((Instant::now() + PAUSE, port));
    }

    /// Whether a failure now is worth a line.
    pub(super) fn is_news(&mut self) -> bool {
        let news = self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY);
        if news {
            self.told = Some(Instant::now());
        }
        news
    }

    /// One whose time is over.
    pub(super) fn take_due(&mut self) -> Option<PortId> {
        let due = self.patience()?.is_zero();
        due.then(|| self.listeners.pop_front())?
            .map(|(_, port)| port)
    }

    /// How long until then.
    pub(super) fn patience(&self) -> Option<Duration> {
        let (until, _) = self.listeners.front()?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}
