//! Whether the next message is expected soon: if so, a shard without work keeps looking for a moment before it sleeps.
//!
//! A process that rings wakes a sleeping shard, and that costs more than its message: 20 us if the shard's core had
//! halted. So a shard whose messages follow each other closely keeps looking meanwhile.

use std::time::Duration;

use vrdma_verbs::Time;

/// Silences up to this are polled through, longer ones slept through. It is several times the cost of falling asleep
/// and being woken, and less than 1 % of a core where ten messages a second come.
const MOMENT: Duration = Duration::from_micros(60);

/// The part of a silence slept through that may be the waking up itself. Without it a shard that has begun to sleep
/// would take the silences that it causes for those of its clients, and go on sleeping.
const WAKING: Duration = Duration::from_micros(60);

/// Short silences after which the next one is expected to be short, too.
const ENOUGH: u32 = 4;

/// Short silences that count at most, so that a few long ones end the polling.
const MOST: u32 = 16;

/// What the shard has done since its last work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Silence {
    NotYet,
    /// It kept looking, and may have slept after that.
    Looked,
    /// It slept at once.
    Slept,
}

/// The expectation; see the module.
#[derive(Debug)]
pub(super) struct Adaptive {
    /// Short silences lately; a long one halves the number.
    short: u32,
    silence: Silence,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            short: 0,
            silence: Silence::Slept,
        }
    }
}

impl Adaptive {
    /// Notes that there was work, for the first time since `last_work`.
    pub(super) fn found(&mut self, now: Time, last_work: Time) {
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

    /// Whether more work is expected soon. `watching` says that because of guests' doorbells the shard looks again by
    /// itself, in naps.
    pub(super) fn expects(&self, now: Time, last_work: Time, watching: bool) -> bool {
        !watching && self.short >= ENOUGH && now < last_work + MOMENT
    }

    /// Notes that there was no work and the shard looks again at once.
    pub(super) fn looks_on(&mut self) {
        self.silence = Silence::Looked;
    }

    /// Notes that there was no work and the shard sleeps.
    pub(super) fn sleeps(&mut self) {
        if self.silence == Silence::NotYet {
            self.silence = Silence::Slept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Returns the state a second after the start, with work just now and messages that followed closely.
    fn busy() -> (Adaptive, Time) {
        let mut polling = Adaptive::default();
        let mut now = Time(1_000_000_000);
        for _ in 0..ENOUGH {
            polling.found(now + US * 20, now);
            now = now + US * 20;
        }
        (polling, now)
    }

    /// Whether a shard that is alone on its core keeps looking.
    fn goes_on(polling: &mut Adaptive, now: Time, last_work: Time) -> bool {
        let goes_on = polling.expects(now, last_work, false);
        match goes_on {
            true => polling.looks_on(),
            false => polling.sleeps(),
        }
        goes_on
    }

    #[test]
    fn who_hears_seldom_sleeps_at_once() {
        let mut polling = Adaptive::default();
        let now = Time(1_000_000_000);
        assert!(!goes_on(&mut polling, now, now));
        for _ in 0..100 {
            polling.found(now + MOMENT + WAKING + US, now);
            assert!(!goes_on(&mut polling, now, now));
        }
    }

    #[test]
    fn waking_up_is_no_silence_of_the_clients() {
        let mut polling = Adaptive::default();
        let mut now = Time(1_000_000_000);
        for _ in 0..ENOUGH {
            assert!(!goes_on(&mut polling, now, now));
            polling.found(now + MOMENT + WAKING, now);
            now = now + MOMENT + WAKING;
        }
        assert!(goes_on(&mut polling, now, now));
    }

    #[test]
    fn sleep_after_a_poll_in_vain_is_silence() {
        let (mut polling, mut now) = busy();
        let silence = MOMENT + WAKING;
        let mut looks = 0;
        for _ in 0..100 {
            looks += u32::from(goes_on(&mut polling, now, now));
            assert!(!goes_on(&mut polling, now + MOMENT, now));
            polling.found(now + silence, now);
            now = now + silence;
        }
        assert!(looks <= 40, "{looks} looks in vain");
    }

    #[test]
    fn who_hears_often_looks_on_for_a_moment() {
        let (mut polling, now) = busy();
        assert!(goes_on(&mut polling, now + US, now));
        assert!(goes_on(&mut polling, now + US * 59, now));
        assert!(!goes_on(&mut polling, now + MOMENT, now));
    }

    #[test]
    fn doorbells_of_guests_are_napped_for() {
        let (polling, now) = busy();
        assert!(!polling.expects(now + US, now, true));
    }

    #[test]
    fn long_silences_end_the_polling() {
        let (mut polling, now) = busy();
        polling.found(now + MOMENT * 10, now);
        let now = now + MOMENT * 10;
        assert!(!goes_on(&mut polling, now, now));
    }
}
