//! A client that stands still in the middle of its work.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::RETRY_EXC_ERR;
use crate::child::{self, Child};
use crate::client::{Client, Host, Memory, Queues, SHORT, assert_works, pair, send, write};

/// Bytes of a write, which is one copy through the descriptor.
const LENGTH: usize = 4096;

/// Writes under way at the same time.
const WINDOW: u64 = 8;

/// How long writes are counted at a time in one state.
const SLICE: Duration = Duration::from_millis(40);

/// Slices in each of the two states. The states alternate, so that other load on the machine affects both.
const SLICES: u32 = 6;

/// A pair that always has writes under way.
pub(crate) struct Busy<'a> {
    client: &'a Client,
    queues: (Queues, Queues),
    from: Memory,
    to: Memory,
}

impl<'a> Busy<'a> {
    pub(crate) fn new(client: &'a Client, peer: &Client) -> Self {
        let mut busy = Self {
            client,
            queues: pair(client, peer),
            from: Memory::new(client, 1, LENGTH),
            to: Memory::new(peer, 0, LENGTH),
        };
        (0..WINDOW).for_each(|_| busy.post());
        busy
    }

    fn post(&mut self) {
        let (header, buffer) = (write(1, &self.to), self.from.buffer());
        self.client.post_send(&mut self.queues.0, header, buffer);
    }

    pub(crate) fn step(&mut self) {
        assert_eq!(self.queues.0.wait().status, 0);
        self.post();
    }

    /// Counts the writes that are done in one slice.
    fn count(&mut self) -> u64 {
        let begun = Instant::now();
        let mut done = 0;
        while begun.elapsed() < SLICE {
            self.step();
            done += 1;
        }
        done
    }
}

impl Drop for Busy<'_> {
    /// Waits for the writes: the daemon is in this process, and would write to memory that is freed and used again.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            (0..WINDOW).for_each(|_| assert_eq!(self.queues.0.wait().status, 0));
        }
    }
}

/// The child's role: writes between two contexts of its own forever, and offers a queue pair without receives that the
/// test sends to.
pub(crate) fn keeps_busy(socket: &Path) {
    let open = |number| Client::open_at(socket, number);
    let (a, b) = (open(0), open(1));
    let idle = a.queues(16);
    child::say(&[idle.reply.qp_num.into()]);
    a.connect(&idle, 1, child::listen().unwrap() as u32, SHORT);
    let mut busy = Busy::new(&a, &b);
    busy.step();
    child::say(&[]);
    loop {
        busy.step();
    }
}

#[test]
fn rule_p41_a_client_that_stands_still_slows_nobody() {
    let host = Host::with_adapters(2);
    let mut child = Child::start("traffic", &host.path());
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    let mut to_child = b.queues(16);
    let number = child.numbers()[0];
    b.connect(&to_child, 0, number as u32, SHORT);
    child.tell(to_child.reply.qp_num.into());
    assert!(child.numbers().is_empty(), "it is at work");
    let mut busy = Busy::new(&a, &b);
    let from = Memory::new(&b, 1, LENGTH);
    b.post_send(&mut to_child, send(7), from.buffer());
    let (mut beside_running, mut beside_stopped) = (0, 0);
    for _ in 0..SLICES {
        beside_running += busy.count();
        child.stop();
        beside_stopped += busy.count();
        child.go_on();
    }
    println!(
        "writes beside it: {beside_running} while it ran, {beside_stopped} while it stood still"
    );
    assert!(beside_stopped * 2 > beside_running);
    assert!(to_child.cq.poll(|_, _| ()).is_none(), "it has no receive");
    child.stop();
    drop(child);
    assert_eq!(to_child.wait().status, RETRY_EXC_ERR);
    assert_works(&a, &b, &mut pair(&a, &b));
}
