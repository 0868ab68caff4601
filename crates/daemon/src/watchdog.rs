//! Reports data path threads that stand still: in the log, and to the service supervisor by its silence.
//!
//! ```text
//!   every interval: noted at the last look? ──► has it made a turn since? ──► wake it
//!                                               └─ not for PATIENCE: one line
//! ```
//! A sleeping thread has no cause to make a turn, so each look gives it one ([`Vital`]).

use std::os::unix::process::parent_id;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use vrdma_threads::Vital;

/// How often a sleeping thread is woken to see that it responds: some 20 us of a core.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a thread is silent before it is reported. No turn takes so long, and no starved thread waits so long for a
/// core.
const PATIENCE: Duration = Duration::from_secs(3);

/// Signs of life per limit of the service supervisor, after which it would end the daemon.
const SIGNS: u32 = 4;

/// Returns the time within which the service supervisor wants a sign of life, if it does (sd_watchdog_enabled(3)). The
/// supervisor names the process that it started: for a worker, that is the keeper.
pub(crate) fn limit(is_kept: bool) -> Option<Duration> {
    let own = match is_kept {
        true => parent_id(),
        false => std::process::id(),
    };
    let variable = |name| std::env::var(name).ok();
    wanted(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), own)
}

fn wanted(microseconds: Option<String>, process: Option<String>, own: u32) -> Option<Duration> {
    let of_another = process.is_some_and(|it| it.parse() != Ok(own));
    let limit = microseconds.filter(|_| !of_another)?.parse().ok()?;
    Some(Duration::from_micros(limit))
}

/// All data path threads.
#[derive(Debug)]
pub(crate) struct Watch {
    threads: Vec<Watched>,
    patience: Duration,
}

#[derive(Debug)]
struct Watched {
    vital: Arc<Vital>,
    /// When the thread was woken last, and how many turns it had made then.
    woken: Option<(Instant, u64)>,
    is_told: bool,
}

impl Watch {
    pub(crate) fn new(threads: impl IntoIterator<Item = Arc<Vital>>) -> Self {
        Self::with_patience(threads, PATIENCE)
    }

    fn with_patience(threads: impl IntoIterator<Item = Arc<Vital>>, patience: Duration) -> Self {
        let watched = |vital| Watched {
            vital,
            woken: None,
            is_told: false,
        };
        Self {
            threads: threads.into_iter().map(watched).collect(),
            patience,
        }
    }

    /// Looks again and again, and calls `alive` as long as all threads go on. A supervisor that waits for it ends the
    /// daemon after `limit` without a call.
    pub(crate) async fn run(mut self, limit: Option<Duration>, alive: impl Fn()) {
        if let Some(limit) = limit {
            self.patience = self.patience.min(limit / 2);
        }
        let interval = limit.map_or(INTERVAL, |limit| INTERVAL.min(limit / SIGNS));
        let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(1)));
        // A daemon that was stopped as a whole looks only once when it goes on.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.look(Instant::now()) && limit.is_some() {
                alive();
            }
        }
    }

    /// Whether all threads go on.
    fn look(&mut self, now: Instant) -> bool {
        let patience = self.patience;
        let looks = self
            .threads
            .iter_mut()
            .map(|thread| thread.look(now, patience));
        // Each thread is looked at, so there is no short cut.
        looks.fold(true, |all, one| all & one)
    }
}

impl Watched {
    /// Whether the thread goes on. It is reported only if it was silent at the previous look too, so that the first
    /// look of a daemon that was stopped reports nothing.
    fn look(&mut self, now: Instant, patience: Duration) -> bool {
        let silence = self.vital.silence();
        match silence {
            Some(silence) if silence >= patience && !self.is_told => {
                self.is_told = true;
                let name = self.vital.name();
                tracing::error!(
                    "{name} has made no turn for {:.1} s, and nobody whom it serves goes on",
                    silence.as_secs_f32()
                );
            }
            None if self.is_told => {
                self.is_told = false;
                tracing::warn!("{} goes on", self.vital.name());
            }
            _ => {}
        }
        if let Some((since, beats)) = self.woken {
            self.vital.note_silence(since, beats);
        }
        self.woken = Some((now, self.vital.beats()));
        self.vital.wake();
        !self.is_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vrdma_threads::{Inbox, Line};

    fn watch() -> (Watch, Inbox<()>) {
        let (line, inbox) = Line::<()>::new("shard 7".to_owned()).unwrap();
        let vital = Arc::clone(line.vital());
        (Watch::with_patience([vital], Duration::ZERO), inbox)
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_and_beats() {
        let (mut watch, inbox) = watch();
        for _ in 0..5 {
            assert!(watch.look(Instant::now()));
            let woken = rustix::io::read(&inbox, &mut [0u8; 8]);
            assert!(woken.is_ok());
            inbox.beat();
        }
    }

    #[test]
    fn a_supervisor_that_means_another_process_is_none() {
        let text = |it: &str| Some(it.to_owned());
        let half = Some(Duration::from_millis(500));
        assert_eq!(wanted(text("500000"), text("7"), 7), half);
        assert_eq!(wanted(text("500000"), None, 7), half);
        assert_eq!(wanted(text("500000"), text("8"), 7), None);
        assert_eq!(wanted(text("soon"), None, 7), None);
        assert_eq!(wanted(None, None, 7), None);
    }

    #[test]
    fn a_thread_that_stands_still_is_told_of_until_it_goes_on() {
        let (mut watch, inbox) = watch();
        let mut looks = || watch.look(Instant::now());
        assert!(looks(), "woken");
        assert!(looks(), "noted");
        assert!(!looks(), "told");
        assert!(!looks());
        inbox.beat();
        assert!(looks());
    }
}
