//! Whether a shard without work polls on for a moment before it sleeps.
//!
//! ```text
//!   asleep ◄── a long silence ── looks on, giving its core away after each look
//!      │                             ▲        │ a look came 1 ms after the one before
//!      └── messages that follow ─────┘        ▼
//!          each other closely               barred: sleeps at once, for twice as long each time
//! ```
//!
//! A process that rings wakes a sleeper, and that costs more than its message: 20 us where the sleeper's
//! core had halted. So a shard whose messages follow each other closely looks on meanwhile.
//!
//! That pays only while the core comes back at once. Programs that poll memory do not give their core
//! away: a shard that shares one with them gets it back at the next tick, while a sleeper that is woken
//! is put before them. So a shard that had to wait once believes that it would again.

use std::time::Duration;

use vrdma_verbs::Time;

/// Silences up to this are looked through, longer ones slept through: about what falling asleep and
/// being woken costs, several times over, and less than 1 % of a core where ten messages a second come.
const MOMENT: Duration = Duration::from_micros(60);

/// Of a silence that was slept through, so much may be the waking up itself. Without it a shard that has
/// begun to sleep would take the silences that it makes for those of its clients, and go on sleeping.
const WAKING: Duration = Duration::from_micros(60);

/// Silences of a moment that say that the next one will be such too.
const ENOUGH: u32 = 4;

/// More of them do not count, so that a few long silences end the polling.
const MOST: u32 = 16;

/// Less than a scheduler tick, more than what programs do between two polls.
const CROWDED: Duration = Duration::from_millis(1);

/// For how long a shard does not look on after it had to wait for its core, at first and at last: to wait
/// for a tick (4 ms) as often as that costs about 1 % in the end, and programs come and go within a second.
const FIRST_BAR: Duration = Duration::from_millis(20);
const LONGEST_BAR: Duration = Duration::from_millis(320);

/// What the shard has done since its last work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Silence {
    NotYet,
    /// Looked on, and may have slept after that.
    Looked,
    /// Slept at once.
    Slept,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Adaptive {
    /// Short silences lately; a long one takes half of them.
    short: u32,
    silence: Silence,
    /// The look after which the core was given away.
    last: Option<Time>,
    barred_until: Time,
    /// The next one, unless the last was long ago.
    bar: Duration,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            short: 0,
            silence: Silence::Slept,
            last: None,
            barred_until: Time(0),
            bar: FIRST_BAR,
        }
    }
}

impl Adaptive {
    /// There was work, for the first time since `last_work`.
    pub(super) fn found(&mut self, now: Time, last_work: Time) {
        self.came_back(now);
        let limit = match self.silence {
            Silence::Slept => MOMENT + WAKING,
            Silence::NotYet | Silence::Looked => MOMENT,
        };
        self.silence = Silence::NotYet;
        self.short = if now <= last_work + limit {
            (self.short + 1).min(MOST)
        } else {
            self.short / 2
        };
    }

    /// There was none; whether to look again at once. `watching` says that guests' doorbells make the
    /// shard look again by itself, in naps.
    pub(super) fn goes_on(&mut self, now: Time, last_work: Time, watching: bool) -> bool {
        self.came_back(now);
        let expects = self.short >= ENOUGH && now < last_work + MOMENT;
        let goes_on = expects && !watching && now >= self.barred_until;
        self.last = goes_on.then_some(now);
        if goes_on {
            self.silence = Silence::Looked;
        } else if self.silence == Silence::NotYet {
            self.silence = Silence::Slept;
        }
        goes_on
    }

    /// The core was given away and is back.
    fn came_back(&mut self, now: Time) {
        let Some(last) = self.last.take() else {
            return;
        };
        if now < last + CROWDED {
            return;
        }
        if now >= self.barred_until + LONGEST_BAR {
            self.bar = FIRST_BAR;
        }
        self.barred_until = now + self.bar;
        self.bar = (self.bar * 2).min(LONGEST_BAR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// A second after the start, with work just now and messages that came closely.
    fn busy() -> (Adaptive, Time) {
        let mut polling = Adaptive::default();
        let mut now = Time(1_000_000_000);
        for _ in 0..ENOUGH {
            polling.found(now + US * 20, now);
            now = now + US * 20;
        }
        (polling, now)
    }

    #[test]
    fn who_hears_seldom_sleeps_at_once() {
        let mut polling = Adaptive::default();
        let now = Time(1_000_000_000);
        assert!(!polling.goes_on(now, now, false));
        for _ in 0..100 {
            polling.found(now + MOMENT + WAKING + US, now);
            assert!(!polling.goes_on(now, now, false));
        }
    }

    #[test]
    fn waking_up_is_no_silence_of_the_clients() {
        let mut polling = Adaptive::default();
        let mut now = Time(1_000_000_000);
        for _ in 0..ENOUGH {
            assert!(!polling.goes_on(now, now, false));
            polling.found(now + MOMENT + WAKING, now);
            now = now + MOMENT + WAKING;
        }
        assert!(polling.goes_on(now, now, false));
    }

    #[test]
    fn sleep_after_a_poll_in_vain_is_silence() {
        let (mut polling, mut now) = busy();
        let silence = MOMENT + WAKING;
        let mut looks = 0;
        for _ in 0..100 {
            looks += u32::from(polling.goes_on(now, now, false));
            assert!(!polling.goes_on(now + MOMENT, now, false));
            polling.found(now + silence, now);
            now = now + silence;
        }
        assert!(looks <= 40, "{looks} looks in vain");
    }

    #[test]
    fn who_hears_often_looks_on_for_a_moment() {
        let (mut polling, now) = busy();
        assert!(polling.goes_on(now + US, now, false));
        assert!(polling.goes_on(now + US * 59, now, false));
        assert!(!polling.goes_on(now + MOMENT, now, false));
    }

    #[test]
    fn doorbells_of_guests_are_napped_for() {
        let (mut polling, now) = busy();
        assert!(!polling.goes_on(now + US, now, true));
    }

    #[test]
    fn long_silences_end_the_polling() {
        let (mut polling, now) = busy();
        polling.found(now + MOMENT * 10, now);
        let now = now + MOMENT * 10;
        assert!(!polling.goes_on(now, now, false));
    }

    #[test]
    fn who_waited_for_its_core_sleeps_for_longer_each_time() {
        let (mut polling, mut now) = busy();
        let mut bars = Vec::new();
        for _ in 0..7 {
            assert!(polling.goes_on(now, now, false));
            now = now + CROWDED * 4;
            polling.found(now, now);
            let barred = now;
            while !polling.goes_on(now, now, false) {
                now = now + Duration::from_millis(20);
            }
            bars.push((now.0 - barred.0) / 1_000_000);
        }
        assert_eq!(bars, [20, 40, 80, 160, 320, 320, 320]);
    }

    #[test]
    fn a_bar_long_ago_is_forgotten() {
        let (mut polling, now) = busy();
        for pause in [0, 20, 60] {
            let now = now + Duration::from_secs(pause);
            assert!(polling.goes_on(now, now, false));
            let back = now + CROWDED;
            polling.found(back, back);
            assert!(!polling.goes_on(back, back, false));
            let freed = back + FIRST_BAR;
            assert!(polling.goes_on(freed, freed, false));
            polling.found(freed, freed);
        }
    }
}
