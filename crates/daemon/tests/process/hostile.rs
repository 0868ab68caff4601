//! Whatever a client sends, its neighbours' messages complete meanwhile, and everything that it owned ends with it.
//!
//! ```text
//!   c0 ◄── messages, one after the other ──► c1        c2, or c0: a process that keeps no rule, driven by a seed
//! ```
//! `VRDMA_TEST_VILLAINS=N` runs N villains, each with a seed of its own. The longest time of a message is then printed,
//! and must be below [`LONGEST`] after subtracting the time in which its threads waited for a processor: the villain is
//! busy, too.

mod processor;
pub(crate) mod villain;

use std::thread;
use std::time::{Duration, Instant};

use processor::Waits;

use crate::child::Child;
use crate::client::{Client, Host, LONG, Memory, Queues, connected, send};

/// Villains by default.
const VILLAINS: u64 = 2;
const VARIABLE: &str = "VRDMA_TEST_VILLAINS";

/// Limit on the time of a message beside a villain. Checked only if a number was asked for, on a machine that is kept
/// quiet.
const LONGEST: Duration = Duration::from_millis(10);

/// A pair of clients that sends one message after the other.
struct Neighbours<'a> {
    clients: [&'a Client; 2],
    queues: (Queues, Queues),
    from: Memory,
    to: Memory,
}

impl<'a> Neighbours<'a> {
    fn new(clients: [&'a Client; 2]) -> Self {
        let [a, b] = clients;
        Self {
            clients,
            queues: connected(a, b, LONG),
            from: Memory::new(a, 7, 3000),
            to: Memory::new(b, 0, 3000),
        }
    }

    /// Exchanges a message, and returns how long it took.
    fn exchange(&mut self, number: u64) -> Duration {
        let [a, b] = self.clients;
        let begun = Instant::now();
        b.post_recv(&mut self.queues.1, number, self.to.buffer());
        a.post_send(&mut self.queues.0, send(number), self.from.buffer());
        for queues in [&mut self.queues.1, &mut self.queues.0] {
            let entry = queues.wait();
            assert_eq!((entry.status, entry.wr_id), (0, number));
        }
        begun.elapsed()
    }
}

/// Longest times of messages.
#[derive(Debug, Default, Clone, Copy)]
struct Longest {
    took: Duration,
    /// The longest time without waits of this process's threads for a processor.
    without_waits: Duration,
}

impl Longest {
    fn note(&mut self, took: Duration, waited: Duration) {
        self.took = self.took.max(took);
        self.without_waits = self.without_waits.max(took.saturating_sub(waited));
    }
}

#[test]
fn neighbours_are_served_whatever_a_client_sends() {
    let host = Host::with_adapters(3);
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    let mut neighbours = Neighbours::new([&a, &b]);
    let before = [0, 1, 2].map(|adapter| host.objects(adapter));
    let asked = std::env::var(VARIABLE).ok();
    let asked = asked.map(|number| number.parse().unwrap());
    let waits = Waits::new();
    let villains = asked.unwrap_or(VILLAINS);
    for seed in 0..villains {
        let mut villain = Child::start("villain", &host.path());
        villain.tell(seed);
        let (mut messages, mut longest) = (0, Longest::default());
        let done = thread::scope(|scope| {
            let working = scope.spawn(|| villain.numbers());
            while !working.is_finished() {
                let before = waits.total();
                let took = neighbours.exchange(messages);
                // Waits of another test's shards are subtracted too.
                longest.note(took, waits.total().saturating_sub(before));
                messages += 1;
            }
            working.join().unwrap()
        });
        let [sent, granted] = done[..] else {
            panic!("{done:?}")
        };
        // A message takes milliseconds when others use the cores, above all with several shards.
        assert!(
            granted > 100 && sent > granted && messages > 10,
            "{done:?}, {messages} messages"
        );
        println!("seed {seed}: {sent} deeds, {granted} granted; {messages} messages, {longest:?}");
        assert!(asked.is_none() || longest.without_waits < LONGEST);
    }
    // Objects of an owner that has ended are freed in slices.
    let mut number = 0;
    while [0, 1, 2].map(|adapter| host.objects(adapter)) != before {
        neighbours.exchange(number);
        number += 1;
        assert!(number < 1_000_000, "objects of nobody");
    }
}
