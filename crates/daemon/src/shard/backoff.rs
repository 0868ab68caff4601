//! How long a shard rests when a turn of its loop found nothing to do.
//!
//! ```text
//!   work found ──► spin ──► nap 5 us ──► nap 50 us ──► ... ──► nap 1 ms
//!                                                               │ no doorbell memory to watch
//!                                                               └──► block until a socket or a timer
//! ```
//!
//! Doorbells in mapped memory wake nobody, so as long as a guest's program holds some the shard must
//! look again by itself. A nap, not a spin: guests that poll occupy the other cores, and a spinning
//! shard costs each message a scheduler tick (4 ms on two cores), while one that wakes from a short
//! sleep is put before them at once.

use std::time::Duration;

/// Idle time up to which a rest applies, and the rest. The last rest goes on for ever.
const LADDER: &[(Duration, Rest)] = &[
    (Duration::from_micros(4), Rest::Spin),
    (Duration::from_millis(5), Rest::Nap(Duration::from_micros(5))),
    (Duration::from_millis(50), Rest::Nap(Duration::from_micros(50))),
    (Duration::from_millis(500), Rest::Nap(Duration::from_micros(250))),
    (Duration::MAX, Rest::Nap(Duration::from_millis(1))),
];

/// What to do before the next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// Go on at once.
    Spin,
    /// Sleep this long, sockets permitting.
    Nap(Duration),
    /// Sleep until a socket has something.
    Block,
}

/// The next rest after `idle` without work.
///
/// `watching` says that doorbell memory must be looked at again; `timer` is the time to the nearest
/// deadline of any engine.
pub(crate) fn rest(idle: Duration, watching: bool, timer: Option<Duration>) -> Rest {
    let wanted = if watching { step(idle) } else { Rest::Block };
    match (wanted, timer) {
        (rest, None) => rest,
        (_, Some(Duration::ZERO)) | (Rest::Spin, _) => Rest::Spin,
        (Rest::Nap(nap), Some(timer)) => Rest::Nap(nap.min(timer)),
        (Rest::Block, Some(timer)) => Rest::Nap(timer),
    }
}

fn step(idle: Duration) -> Rest {
    LADDER
        .iter()
        .find(|(limit, _)| idle < *limit)
        .map_or(Rest::Block, |(_, rest)| *rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn rests_grow_with_idleness() {
        let naps = [0u32, 100, 10_000, 100_000, 10_000_000].map(|us| rest(US * us, true, None));
        assert_eq!(naps[0], Rest::Spin);
        assert_eq!(naps[1], Rest::Nap(US * 5));
        assert_eq!(naps[4], Rest::Nap(US * 1000));
    }

    #[test]
    fn nothing_to_watch_blocks_until_the_timer() {
        assert_eq!(rest(Duration::ZERO, false, None), Rest::Block);
        assert_eq!(rest(Duration::ZERO, false, Some(US * 7)), Rest::Nap(US * 7));
        assert_eq!(rest(Duration::ZERO, false, Some(Duration::ZERO)), Rest::Spin);
    }

    #[test]
    fn a_timer_cuts_a_nap_short() {
        assert_eq!(rest(US * 1_000_000, true, Some(US * 3)), Rest::Nap(US * 3));
    }
}
