//! The rings between shards, and how shards wake each other.
//!
//! ```text
//!   shard 0 ── units ──► shard 1        one ring of each kind for each ordered pair: one thread writes,
//!           ◄─ answers ─                one reads
//! ```
//! A shard that sleeps says so first and then looks at its rings once more; a shard that writes looks afterwards
//! whether the other one sleeps. So one of the two sees the other (both by a fence that orders all threads).

use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};
use vrdma_host::{Lane, ShardId, Transfer};
use vrdma_process::OpeningSession;
use vrdma_threads::Waker;
use vrdma_verbs::Time;

use super::Carrier;
use super::adapter::Adapter;

/// Transfers that fit a ring: what a busy shard moves in some hundred microseconds.
const RING: usize = 512;

/// Sessions that fit a ring.
const SESSIONS_RING: usize = 64;

type Carried = Transfer<Adapter>;

/// Whether a shard sleeps, and how it is woken.
struct Sleeper {
    asleep: AtomicBool,
    waker: Waker,
}

/// A shard's ends of the rings to and from another one.
struct Ends {
    shard: ShardId,
    sleeper: Arc<Sleeper>,
    units_out: Producer<Carried>,
    answers_out: Producer<Carried>,
    units_in: Consumer<Carried>,
    answers_in: Consumer<Carried>,
    sessions_out: Producer<Box<OpeningSession>>,
    sessions_in: Consumer<Box<OpeningSession>>,
    /// Sessions that found their ring full; no more than there may be sessions.
    passed: VecDeque<Box<OpeningSession>>,
}

/// The rings of one shard.
pub(super) struct Lanes {
    own: Arc<Sleeper>,
    ends: Vec<Ends>,
    sent: u64,
}

/// Makes the rings of each shard; `wakers` wake the shards.
pub(super) fn between(wakers: Vec<Waker>) -> Vec<Lanes> {
    let shards = wakers.len() as u16;
    let sleepers = wakers.into_iter().map(|waker| {
        Arc::new(Sleeper {
            asleep: AtomicBool::new(false),
            waker,
        })
    });
    let sleepers: Vec<_> = sleepers.collect();
    let own = sleepers.iter().cloned();
    let mut all: Vec<_> = own
        .map(|own| Lanes {
            own,
            ends: Vec::new(),
            sent: 0,
        })
        .collect();
    for a in 0..shards {
        for b in a + 1..shards {
            let (to_b, from_a) = pair(ShardId(a), ShardId(b), &sleepers);
            all[usize::from(a)].ends.push(to_b);
            all[usize::from(b)].ends.push(from_a);
        }
    }
    all
}

/// Makes the ends of two shards.
fn pair(a: ShardId, b: ShardId, sleepers: &[Arc<Sleeper>]) -> (Ends, Ends) {
    let sleeper = |shard: ShardId| Arc::clone(&sleepers[usize::from(shard.0)]);
    let (a_units_out, b_units_in) = RingBuffer::new(RING);
    let (b_units_out, a_units_in) = RingBuffer::new(RING);
    let (a_answers_out, b_answers_in) = RingBuffer::new(RING);
    let (b_answers_out, a_answers_in) = RingBuffer::new(RING);
    let (a_sessions_out, b_sessions_in) = RingBuffer::new(SESSIONS_RING);
    let (b_sessions_out, a_sessions_in) = RingBuffer::new(SESSIONS_RING);
    let of_a = Ends {
        shard: b,
        sleeper: sleeper(b),
        units_out: a_units_out,
        answers_out: a_answers_out,
        units_in: a_units_in,
        answers_in: a_answers_in,
        sessions_out: a_sessions_out,
        sessions_in: a_sessions_in,
        passed: VecDeque::new(),
    };
    let of_b = Ends {
        shard: a,
        sleeper: sleeper(a),
        units_out: b_units_out,
        answers_out: b_answers_out,
        units_in: b_units_in,
        answers_in: b_answers_in,
        sessions_out: b_sessions_out,
        sessions_in: b_sessions_in,
        passed: VecDeque::new(),
    };
    (of_a, of_b)
}

/// Takes in transfers that have come by a ring, in place. The index behind those taken moves once, so that its cache
/// line does not go from core to core for each.
fn take_in(
    host: &mut Carrier,
    from: ShardId,
    lane: Lane,
    ring: &mut Consumer<Carried>,
    now: Time,
) -> bool {
    let come = ring.slots();
    let Ok(mut chunk) = ring.read_chunk(come) else {
        return false;
    };
    let (first, second) = chunk.as_mut_slices();
    let mut taken = 0;
    let come = first.iter_mut().chain(second).inspect(|_| taken += 1);
    let worked = host.take_from(from, lane, come, now);
    chunk.commit(taken);
    worked
}

impl Lanes {
    /// Takes in transfers of other shards, as far as their budgets go; `true` if there were any.
    pub(super) fn take(&mut self, host: &mut Carrier, now: Time) -> bool {
        let mut any = false;
        for ends in &mut self.ends {
            for (lane, ring) in [
                (Lane::Answers, &mut ends.answers_in),
                (Lane::Units, &mut ends.units_in),
            ] {
                any |= take_in(host, ends.shard, lane, ring, now);
            }
        }
        any
    }

    /// Sends transfers that wait, as far as there is room, and wakes receivers that sleep.
    pub(super) fn send(&mut self, host: &mut Carrier) {
        for ends in &mut self.ends {
            let mut sent = 0;
            for (lane, ring) in [
                (Lane::Answers, &mut ends.answers_out),
                (Lane::Units, &mut ends.units_out),
            ] {
                let next = || host.next_transfer(ends.shard, lane);
                let room = ring.slots();
                if let Ok(places) = ring.write_chunk_uninit(room) {
                    sent += places.fill_from_iter(iter::from_fn(next)) as u64;
                }
            }
            while !ends.sessions_out.is_full()
                && let Some(session) = ends.passed.pop_front()
            {
                let _ = ends.sessions_out.push(session);
                sent += 1;
            }
            self.sent += sent;
            if sent > 0 {
                ends.sleeper.wake();
            }
        }
    }

    /// Hands a session to the shard that has its adapter.
    pub(super) fn pass_session(&mut self, to: ShardId, session: Box<OpeningSession>) {
        if let Some(ends) = self.ends.iter_mut().find(|ends| ends.shard == to) {
            ends.passed.push_back(session);
        }
    }

    /// Returns a session that another shard has accepted.
    pub(super) fn take_session(&mut self) -> Option<Box<OpeningSession>> {
        let mut ends = self.ends.iter_mut();
        ends.find_map(|ends| ends.sessions_in.pop().ok())
    }

    /// Makes senders wake this shard from now on; `false` if something has come already.
    pub(super) fn fall_asleep(&self) -> bool {
        if self.ends.is_empty() {
            return true;
        }
        self.own.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_empty = |ends: &Ends| {
            ends.units_in.is_empty() && ends.answers_in.is_empty() && ends.sessions_in.is_empty()
        };
        self.ends.iter().all(is_empty)
    }

    /// Notes that the shard looks by itself again.
    pub(super) fn wake_up(&self) {
        self.own.asleep.store(false, Ordering::Relaxed);
    }

    /// Returns how many transfers it has sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }
}

impl Sleeper {
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
    }
}
