//! Records which datagrams of a session have come, so that none is taken twice (as RFC 4303 section 3.4.3).

/// How far a datagram may be behind the newest: as many as wait in one batch of a shard while another shard sends
/// (`batch::WAITING_MAX` messages, each of as many datagrams as the kernel joins).
pub(super) const WINDOW: u64 = 32_768;

const WORDS: usize = (WINDOW / 64) as usize;

/// Numbers that have come.
pub(super) struct Window {
    /// The highest number that came, plus one.
    next: u64,
    seen: Box<[u64; WORDS]>,
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            seen: Box::new([0; WORDS]),
        }
    }

    /// Whether a number has not come yet, as far as that is known.
    pub(super) fn is_new(&self, number: u64) -> bool {
        if number >= self.next {
            return number != u64::MAX;
        }
        let (word, bit) = place(number);
        self.next - number <= WINDOW && self.seen[word] & bit == 0
    }

    /// Notes a new number, whose datagram is authentic.
    pub(super) fn note(&mut self, number: u64) {
        if number >= self.next {
            self.advance(number);
        }
        let (word, bit) = place(number);
        self.seen[word] |= bit;
    }

    /// Forgets the oldest numbers, whose places the new ones take.
    fn advance(&mut self, number: u64) {
        if number - self.next >= WINDOW {
            self.seen.fill(0);
        } else {
            for passed in self.next..=number {
                let (word, bit) = place(passed);
                self.seen[word] &= !bit;
            }
        }
        self.next = number + 1;
    }
}

fn place(number: u64) -> (usize, u64) {
    ((number % WINDOW / 64) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the window with a set that forgets nothing.
        #[test]
        fn nothing_is_taken_twice_and_what_is_new_is_taken(
            steps in prop::collection::vec(
                prop_oneof![4 => 0i64..4, 2 => -70i64..70, 1 => -40_000i64..40_000, 1 => -33_000i64..-32_500],
                1..400,
            )
        ) {
            let (mut window, mut came) = (Window::new(), BTreeSet::new());
            let mut newest = 0u64;
            for step in steps {
                let number = newest.saturating_add_signed(step);
                let next = came.last().map_or(0, |last| last + 1);
                let old = number + WINDOW < next;
                prop_assert_eq!(window.is_new(number), !old && !came.contains(&number));
                if window.is_new(number) {
                    window.note(number);
                    came.insert(number);
                    newest = newest.max(number);
                }
            }
        }
    }

    #[test]
    fn the_last_number_is_never_taken() {
        let mut window = Window::new();
        assert!(window.is_new(u64::MAX - 1) && !window.is_new(u64::MAX));
        window.note(u64::MAX - 1);
        assert!(!window.is_new(u64::MAX - 1) && !window.is_new(0));
    }
}
