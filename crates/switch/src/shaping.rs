//! Meters: how much may pass in a given time, by the generic cell rate algorithm (ITU-T I.371).
//!
//! ```text
//!   paid up to now                 now                     arrival
//!   ───────┴────────────────────────┼─────── burst ───────────┤ ─ ─ further: closed until it is near
//!                                   └ each charge moves `arrival` by its amount / rate
//! ```
//! A meter holds the moment at which everything that has passed would have passed at its rate. It is open while that
//! moment is at most a burst ahead. What passes is charged afterwards, so the last charge may go beyond the burst, and
//! the next sender waits for that.
//!
//! The whole state is in atomics: several threads share a meter without a lock, and a rate may change during operation.

use core::num::NonZeroU64;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Parts of a nanosecond in which moments are counted: 64 bytes at 100 Gbit/s take 5.12 ns, and whole nanoseconds would
/// be 2 % off. 64 bits of them last 9 years.
const PARTS: u64 = 64;

const NS_A_SECOND: u64 = 1_000_000_000;

/// How far a meter may run ahead: a waiting sender is woken late by as much as a scheduler's tick, and has to make up
/// for it.
pub const BURST_NS: u64 = 4_000_000;

/// A meter for one rate. Without a rate it is always open.
#[derive(Default, Debug)]
pub struct Meter {
    /// Units a second; 0 is no rate.
    rate: AtomicU64,
    /// The moment that the module describes, in [`PARTS`].
    arrival: AtomicU64,
}

impl Meter {
    /// Returns the rate.
    pub fn rate(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.rate.load(Relaxed))
    }

    /// Sets or removes the rate. What was owed at the old one is forgotten.
    pub fn set_rate(&self, rate: Option<NonZeroU64>) {
        let rate = rate.map_or(0, NonZeroU64::get);
        if self.rate.swap(rate, Relaxed) != rate {
            // A thread that sees the new moment also sees the new rate.
            self.arrival.store(0, Release);
        }
    }

    /// Returns the nanoseconds until the meter is open; 0 if it is.
    pub fn wait_ns(&self, now_ns: u64) -> u64 {
        if self.rate.load(Relaxed) == 0 {
            return 0;
        }
        let open_at = self.arrival.load(Acquire).div_ceil(PARTS);
        open_at.saturating_sub(now_ns).saturating_sub(BURST_NS)
    }

    /// Charges an amount that has passed.
    pub fn charge(&self, amount: u64, now_ns: u64) {
        if self.rate.load(Relaxed) == 0 {
            return;
        }
        let now = now_ns.saturating_mul(PARTS);
        // The update never fails, so its result is of no use.
        let _ = self.arrival.fetch_update(AcqRel, Acquire, |arrival| {
            let taken = self.time_of(amount)?;
            Some(arrival.max(now).saturating_add(taken))
        });
    }

    /// Counts an amount that has passed, whether the meter was open or not. What passes while it is closed takes it at
    /// most two bursts ahead, so that it opens soon after.
    pub fn note(&self, amount: u64, now_ns: u64) {
        if self.rate.load(Relaxed) == 0 {
            return;
        }
        let now = now_ns.saturating_mul(PARTS);
        let ahead = |bursts: u64| now.saturating_add(bursts * BURST_NS * PARTS);
        let _ = self.arrival.fetch_update(AcqRel, Acquire, |arrival| {
            let after = arrival.max(now).saturating_add(self.time_of(amount)?);
            let is_open = arrival <= ahead(1);
            Some(match is_open {
                true => after,
                false => arrival.max(after.min(ahead(2))),
            })
        });
    }

    /// Returns how long an amount takes, in [`PARTS`].
    fn time_of(&self, amount: u64) -> Option<u64> {
        let rate = self.rate()?.get();
        let parts = u128::from(amount) * u128::from(NS_A_SECOND * PARTS);
        Some(u64::try_from(parts.div_ceil(rate.into())).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meter(rate: u64) -> Meter {
        let meter = Meter::default();
        meter.set_rate(NonZeroU64::new(rate));
        meter
    }

    /// Sends amounts as early as the meter allows, beginning at `from`; returns what passed within `ns`.
    fn passed(meter: &Meter, amount: u64, from: u64, ns: u64) -> u64 {
        let (mut now, mut passed) = (from, 0);
        loop {
            now += meter.wait_ns(now);
            if now >= from + ns {
                return passed;
            }
            meter.charge(amount, now);
            passed += amount;
        }
    }

    #[test]
    fn without_a_rate_it_is_open() {
        let meter = Meter::default();
        meter.charge(u64::MAX, 7);
        assert_eq!((meter.wait_ns(0), meter.rate()), (0, None));
    }

    #[test]
    fn a_burst_passes_at_once_and_the_rest_at_its_rate() {
        let meter = meter(1_000_000_000);
        let burst = passed(&meter, 512, 0, 1);
        assert!((BURST_NS..=BURST_NS + 512).contains(&burst), "{burst}");
        let rest = passed(&meter, 512, 1, NS_A_SECOND);
        assert!(rest.abs_diff(NS_A_SECOND) <= 1024, "{rest}");
    }

    #[test]
    fn silence_does_not_add_up() {
        let meter = meter(1_000_000_000);
        passed(&meter, 512, 0, 1);
        let burst = passed(&meter, 512, 100 * NS_A_SECOND, 1);
        assert!(burst <= BURST_NS + 512, "{burst}");
    }

    #[test]
    fn a_new_rate_holds_at_once() {
        let meter = meter(1000);
        meter.charge(1_000_000, 0);
        assert!(meter.wait_ns(0) > 900 * NS_A_SECOND);
        meter.set_rate(NonZeroU64::new(1_000_000_000));
        assert_eq!(meter.wait_ns(0), 0);
        let passed = passed(&meter, 512, 0, NS_A_SECOND);
        assert!(passed.abs_diff(NS_A_SECOND) <= BURST_NS + 1024);
        meter.charge(u64::MAX, NS_A_SECOND);
        meter.set_rate(None);
        assert_eq!(meter.wait_ns(0), 0);
    }

    #[test]
    fn what_passes_while_it_is_closed_closes_it_for_two_bursts_at_most() {
        let meter = meter(1_000_000_000);
        let closed = NS_A_SECOND / 100;
        meter.note(closed, 0);
        assert_eq!(meter.wait_ns(0), closed - BURST_NS, "it was open");
        let now = closed - BURST_NS - 1;
        assert_eq!(meter.wait_ns(now), 1);
        (0..100).for_each(|_| meter.note(closed, now));
        assert_eq!(meter.wait_ns(now), BURST_NS, "it was closed");
        meter.note(512, now + BURST_NS);
        assert_eq!(meter.wait_ns(now + BURST_NS), 512);
        meter.set_rate(None);
        meter.note(u64::MAX, 0);
        assert_eq!(meter.wait_ns(0), 0);
    }

    #[test]
    fn two_who_share_it_have_its_rate_together() {
        let meter = meter(1_000_000_000);
        let (mut now, mut sent) = (0, [0u64; 2]);
        while now < NS_A_SECOND {
            for bytes in &mut sent {
                if meter.wait_ns(now) == 0 {
                    meter.charge(8192, now);
                    *bytes += 8192;
                }
            }
            now += 1000;
        }
        let both: u64 = sent.iter().sum();
        assert!(both.abs_diff(NS_A_SECOND) < NS_A_SECOND / 100, "{both}");
    }

    proptest! {
        #[test]
        fn the_rate_is_exact(rate in 400_000u64..1 << 37, amount in 1u64..1 << 22) {
            // Long enough for a thousand amounts and a thousand bursts.
            let one = (u128::from(amount) * u128::from(NS_A_SECOND) / u128::from(rate)) as u64 + 1;
            let ns = (one * 1000).max(BURST_NS * 1000);
            // Limits the steps to what a test has time for.
            prop_assume!(ns / one <= 2_000_000);
            let passed = passed(&meter(rate), amount, 5, ns);
            let due = (u128::from(rate) * u128::from(ns) / u128::from(NS_A_SECOND)) as u64;
            let burst = (u128::from(rate) * u128::from(BURST_NS) / u128::from(NS_A_SECOND)) as u64;
            prop_assert!(passed <= due + burst + 2 * amount);
            prop_assert!(passed >= due - due / 100);
        }

        #[test]
        fn nothing_overflows(rate: u64, amounts: [u64; 4], now: u64) {
            let meter = meter(rate);
            for amount in amounts {
                meter.charge(amount, now);
            }
            let open = now.saturating_add(meter.wait_ns(now));
            prop_assert!(open >= now);
        }
    }
}
