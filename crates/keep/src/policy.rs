//! Decides whether another worker is started, from how and when workers ended.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The exit code of a worker that wants to be started again.
pub const EXIT_AGAIN: i32 = 75;

/// Time within which crashes are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Exit codes of a panic: Rust's own, and a shell's code for SIGABRT.
const PANICS: [i32; 2] = [101, 134];

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The worker exited with this code.
    Exited(i32),
    /// The worker was killed by this signal.
    Killed(i32),
}

impl End {
    fn is_crash(self) -> bool {
        match self {
            Self::Killed(_) => true,
            Self::Exited(code) => PANICS.contains(&code),
        }
    }

    /// Returns the exit code that a shell would report.
    fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128 + signal,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Killed(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// What follows a worker's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another worker is started.
    Again,
    /// The keeper ends with this code.
    Stop(i32),
    /// The keeper ends, because the last workers crashed in these ways.
    GiveUp(Vec<End>),
}

/// Recent crashes, and whether the keeper was told to end.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Number of crashes within [`WINDOW`] after which no worker is started.
    crashes_max: usize,
    crashes: VecDeque<(Duration, End)>,
    is_stopping: bool,
}

impl Policy {
    pub(crate) fn new(crashes_max: usize) -> Self {
        Self {
            crashes_max,
            crashes: VecDeque::new(),
            is_stopping: false,
        }
    }

    /// Notes that the keeper was told to end: no worker is started any more.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Decides what follows a worker's end at `now`, a time since any fixed moment.
    pub(crate) fn after(&mut self, end: End, now: Duration) -> Next {
        let again = end == End::Exited(EXIT_AGAIN);
        match (self.is_stopping, end.is_crash()) {
            (true, _) => Next::Stop(if again { 0 } else { end.code() }),
            (false, true) => self.after_crash(end, now),
            (false, false) if again => Next::Again,
            (false, false) => Next::Stop(end.code()),
        }
    }

    fn after_crash(&mut self, end: End, now: Duration) -> Next {
        let is_old = |at: &Duration| now.saturating_sub(*at) >= WINDOW;
        while self.crashes.front().is_some_and(|(at, _)| is_old(at)) {
            self.crashes.pop_front();
        }
        self.crashes.push_back((now, end));
        if self.crashes.len() < self.crashes_max {
            return Next::Again;
        }
        Next::GiveUp(self.crashes.iter().map(|(_, end)| *end).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGV: End = End::Killed(11);

    fn after(policy: &mut Policy, end: End, seconds: u64) -> Next {
        policy.after(end, Duration::from_secs(seconds))
    }

    #[test]
    fn an_ordinary_exit_is_the_keeper_s() {
        for code in [0, 1, 2, 77] {
            let next = after(&mut Policy::new(3), End::Exited(code), 0);
            assert_eq!(next, Next::Stop(code));
        }
    }

    #[test]
    fn who_wants_another_start_gets_it_however_often() {
        let mut policy = Policy::new(3);
        for _ in 0..10 {
            assert_eq!(after(&mut policy, End::Exited(EXIT_AGAIN), 0), Next::Again);
        }
    }

    #[test]
    fn the_third_crash_in_a_minute_is_the_last() {
        let mut policy = Policy::new(3);
        assert_eq!(after(&mut policy, SEGV, 0), Next::Again);
        assert_eq!(after(&mut policy, End::Exited(101), 30), Next::Again);
        let ends = vec![SEGV, End::Exited(101), End::Exited(134)];
        assert_eq!(after(&mut policy, End::Exited(134), 59), Next::GiveUp(ends));
    }

    #[test]
    fn a_crash_is_forgotten_after_a_minute() {
        let mut policy = Policy::new(3);
        for minute in 0..10 {
            assert_eq!(after(&mut policy, SEGV, minute * 60), Next::Again);
            assert_eq!(after(&mut policy, SEGV, minute * 60), Next::Again);
        }
    }

    #[test]
    fn nothing_is_started_once_the_end_is_wanted() {
        let ends = [
            (SEGV, 139),
            (End::Exited(EXIT_AGAIN), 0),
            (End::Exited(2), 2),
        ];
        for (end, code) in ends {
            let mut policy = Policy::new(3);
            policy.stop();
            assert_eq!(after(&mut policy, end, 0), Next::Stop(code));
        }
    }
}
