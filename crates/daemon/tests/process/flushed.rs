//! Requests of a queue pair that enters the error state.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use vrdma_provider::layout::Buffer;
use vrdma_provider::message::DeregMr;

use crate::client::{Client, Memory, pair, send};
use crate::stopped::Busy;
use crate::{LOC_PROT_ERR, WR_FLUSH_ERR, two};

/// Sends that are posted at once.
const SENDS: u64 = 8;

/// Bytes of a send: more than two adapters exchange in one turn.
const LENGTH: usize = 300_000;

/// Queue pairs that fail, one after the other.
const ROUNDS: u64 = 50;

#[test]
fn receives_posted_in_error_are_flushed() {
    let (_host, a, b) = two();
    let mut queues = pair(&a, &b);
    let wrong = Buffer {
        addr: 4096,
        length: 64,
        lkey: 0xdead_beef,
    };
    a.post_send(&mut queues.0, send(1), wrong);
    assert_eq!(queues.0.wait().status, LOC_PROT_ERR);
    let to = Memory::new(&a, 0, 64);
    for wr_id in 0..40 {
        a.post_recv(&mut queues.0, wr_id, to.buffer());
        let entry = queues.0.wait();
        assert_eq!((entry.status, entry.wr_id), (WR_FLUSH_ERR, wr_id));
    }
}

/// Sets the flag at its end.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Whether the doorbell is handled before or after the request to fail, every send completes: first those that were
/// done, then the flushed ones. Other clients keep the shard busy meanwhile.
#[test]
fn sends_posted_just_before_the_error_state_complete() {
    let (host, a, b) = two();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (c, d) = (Client::open(&host, 0), Client::open(&host, 1));
            let mut busy = Busy::new(&c, &d);
            while !stop.load(Relaxed) {
                busy.step();
            }
        });
        let _stops = Stops(&stop);
        let (from, to) = (Memory::new(&a, 1, LENGTH), Memory::new(&b, 0, LENGTH));
        for round in 0..ROUNDS {
            fail_under_way(&a, &from, &b, &to, round % 4);
        }
        // Requests under way may still arrive, but not after this.
        b.call(&DeregMr { mr: to.mr.mr }).unwrap();
        a.call(&DeregMr { mr: from.mr.mr }).unwrap();
    });
}

/// Lets a queue pair fail while sends are under way: the peer has only `receives` receives. The last send is posted
/// right before the request to fail.
fn fail_under_way(a: &Client, from: &Memory, b: &Client, to: &Memory, receives: u64) {
    let mut queues = pair(a, b);
    for wr_id in 0..receives {
        b.post_recv(&mut queues.1, wr_id, to.buffer());
    }
    for wr_id in 0..SENDS - 1 {
        a.post_send(&mut queues.0, send(wr_id), from.buffer());
    }
    for wr_id in 0..receives {
        let entry = queues.0.wait();
        assert_eq!((entry.wr_id, entry.status), (wr_id, 0));
    }
    a.post_send(&mut queues.0, send(SENDS - 1), from.buffer());
    a.fail(&queues.0);
    for wr_id in receives..SENDS {
        let entry = queues.0.wait();
        assert_eq!((entry.wr_id, entry.status), (wr_id, WR_FLUSH_ERR));
    }
}
