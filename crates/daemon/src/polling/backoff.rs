//! How long a shard rests when a turn of its loop found nothing to do.
//!
//! ```text
//!   work found ──► nap 20 us ──► nap 100 us ──► ... ──► nap 4 ms
//!        │ no doorbell memory to watch
//!        └──► poll on for some microseconds (`adaptive`) ──► block until a socket or a timer
//! ```
//!
//! Doorbells in mapped memory wake nobody, so as long as a guest's program holds some the shard must
//! look again by itself. It then naps and never spins: guests that poll occupy the other cores, and a shard
//! that uses up its share of one waits a scheduler tick (4 ms) for each message, while one that has
//! mostly slept is put before the guests the moment it wakes. On two cores with two polling guests
//! naps of 5 us cost 3 ms a message, naps of 20 us nothing but themselves.

use std::time::Duration;

/// A shard whose guests hold doorbells and do not use them looks so often: a thousand looks a second
/// cost 2 % of a core, these less than one, and the first message after a long silence waits for it.
const LONGEST: Duration = Duration::from_millis(4);

/// Idle time up to which a nap applies, and the nap; [`LONGEST`] afterwards.
const LADDER: &[(Duration, Duration)] = &[
    (Duration::from_millis(50), Duration::from_micros(20)),
    (Duration::from_millis(200), Duration::from_micros(100)),
    (Duration::from_secs(1), Duration::from_micros(250)),
    (Duration::from_secs(10), Duration::from_millis(1)),
];

/// The next rest after `idle` without work; `None` is until a socket has something.
///
/// `watching` says that doorbell memory must be looked at again; `timer` is the time to the nearest
/// deadline of any engine.
pub(crate) fn rest(idle: Duration, watching: bool, timer: Option<Duration>) -> Option<Duration> {
    let nap = if watching { Some(step(idle)) } else { None };
    nap.into_iter().chain(timer).min()
}

fn step(idle: Duration) -> Duration {
    let rung = LADDER.iter().find(|(limit, _)| idle < *limit);
    rung.map_or(LONGEST, |(_, nap)| *nap)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn rests_grow_with_idleness() {
        let naps = [0u32, 49_000, 100_000, 500_000, 9_000_000, 10_000_000]
            .map(|us| rest(US * us, true, None));
        assert_eq!(naps, [20, 20, 100, 250, 1000, 4000].map(|us| Some(US * us)));
    }

    #[test]
    fn nothing_to_watch_blocks_until_the_timer() {
        assert_eq!(rest(Duration::ZERO, false, None), None);
        assert_eq!(rest(Duration::ZERO, false, Some(US * 7)), Some(US * 7));
        assert_eq!(
            rest(Duration::ZERO, false, Some(Duration::ZERO)),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn a_timer_cuts_a_nap_short() {
        assert_eq!(rest(US * 1_000_000, true, Some(US * 3)), Some(US * 3));
    }
}
