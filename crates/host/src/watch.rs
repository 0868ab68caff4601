//! How often doorbells that wake nobody are looked at.
//!
//! ```text
//!   used ──► every turn, with naps of 20 us ──► every 100 us ──► ... ──► every 4 ms
//!     ▲ 0            50 ms of silence               200 ms                  10 s
//!     └──────────────────────── a doorbell: from the beginning ────────────┘
//! ```
//! Doorbells of guests in mapped memory wake nobody, so they must be polled as long as a guest's program holds some.
//! Polls are naps and not spins: guests that poll occupy the other cores, and a shard that uses up its share of a core
//! waits a scheduler tick (4 ms) for each message, while one that has mostly slept is scheduled before the guests the
//! moment it wakes. On two cores with two polling guests naps of 5 us cost 3 ms a message, naps of 20 us nothing but
//! themselves.
//!
//! Each guest has its own step, so a silent guest costs the others nothing, and its own first message after more than
//! 10 s waits for at most 4 ms.

use std::time::Duration;

use vrdma_verbs::Time;

/// The longest time between two looks. A thousand looks a second cost 2 % of a core, these less than one.
const LONGEST: Duration = Duration::from_millis(4);

/// Silence up to which a step applies, and the time between two looks; [`LONGEST`] beyond them.
const LADDER: [(Duration, Duration); 4] = [
    (OFTEN, Duration::from_micros(20)),
    (Duration::from_millis(200), Duration::from_micros(100)),
    (LATELY, Duration::from_micros(250)),
    (Duration::from_secs(10), Duration::from_millis(1)),
];

/// Silence up to which there is a look in every turn.
const OFTEN: Duration = Duration::from_millis(50);

/// Silence up to which a guest may occupy a core to wait for its next message.
const LATELY: Duration = Duration::from_secs(1);

/// Whether every turn looks at doorbells that were silent for this long.
pub(crate) fn looks_each_turn(silent: Duration) -> bool {
    silent < OFTEN
}

/// Whether the shard that serves them must not spin, because their owner may.
pub(crate) fn is_watched(silent: Duration) -> bool {
    silent < LATELY
}

/// Returns when to look next at the latest. All steps but the shortest end at the same moments for every guest, so that
/// many silent guests are looked at together.
pub(crate) fn next_look(now: Time, silent: Duration) -> Time {
    let step = LADDER.iter().find(|(limit, _)| silent < *limit);
    let step = step.map_or(LONGEST, |(_, step)| *step);
    if looks_each_turn(silent) {
        return now + step;
    }
    let step = step.as_nanos() as u64;
    Time((now.0 / step + 1) * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_seldom_with_silence() {
        let now = Time(60_000_000_000 + 7);
        let after = [0u64, 49_000, 50_000, 500_000, 9_000_000, 10_000_000].map(|us| {
            next_look(now, Duration::from_micros(us))
                .since(now)
                .as_nanos() as u64
        });
        let expected = [
            20_000,
            20_000,
            100_000 - 7,
            250_000 - 7,
            1_000_000 - 7,
            4_000_000 - 7,
        ];
        assert_eq!(after, expected);
    }

    #[test]
    fn silent_guests_are_looked_at_together() {
        let silent = Duration::from_secs(20);
        let looks = [1u64, 1_000_000, 3_999_999].map(|now| next_look(Time(now), silent));
        assert_eq!(looks, [Time(4_000_000); 3]);
        assert_eq!(next_look(Time(4_000_000), silent), Time(8_000_000));
    }
}
