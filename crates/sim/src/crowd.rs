//! A run whose adapters want more than they can get: what each of them gets is compared with what weights, limits and
//! guarantees promise.
//!
//! ```text
//!   seed ─► plan ─► port groups with tenants ─┬─ greedy: it always has messages for its sink
//!                                             └─ light: one short message now and then
//!   one turn of the shipped carrier ─► the time that its units take passes ─► judge ─► next turn
//! ```
//! All adapters are at one host. The clock sets the speed of its carrier: the cost of what it moves is time.

mod build;
mod judge;
mod plan;

use fastrand::Rng;
use vrdma_verbs::Time;
use vrdma_verbs::object::QpId;
use vrdma_verbs::work::{Output, Remote, SendOp, SendWr, Sge, Status};

use crate::cluster::Cluster;
use crate::member::Carried;
use crate::summary::Summary;
use crate::violation::{Violation, check};
use judge::Judge;
use plan::Does;

/// Cost of a unit besides its bytes, as the carrier counts.
const UNIT_COST: u64 = 1 << 10;

/// Bytes of one message where messages a second are guaranteed: longer ones count as several.
const MESSAGE_BYTES: u64 = 4 << 10;

/// Turns after which a run is over, regardless of what has moved.
const TURNS_MAX: u64 = 200_000;

/// Returns the cost of what was carried, which takes as many nanoseconds.
fn cost(carried: Carried) -> u64 {
    carried.bytes + carried.units * UNIT_COST
}

/// An adapter that sends, with the number of its queue pair, what it sends and where.
struct Sender {
    adapter: usize,
    qp: QpId,
    does: Does,
    local: Sge,
    remote: Remote,
    /// What was carried for it by the end of the last turn.
    seen: Carried,
    /// When a light tenant posts its next message.
    posts_at: Time,
}

pub(crate) struct Crowd {
    pub(crate) cluster: Cluster,
    tenants: Vec<Sender>,
    judge: Judge,
    random: Rng,
    turns: u64,
    requests: u64,
}

impl Crowd {
    pub(crate) fn run(&mut self) -> Result<Summary, Violation> {
        while !self.judge.has_seen_enough(self.cluster.now) {
            check(self.turns < TURNS_MAX, || {
                format!("starved: {}", self.judge.describe())
            })?;
            self.turns += 1;
            self.post()?;
            self.cluster.turn(0)?;
            self.take_completions()?;
            self.take_stock()?;
        }
        self.judge.shares()?;
        Ok(Summary {
            runs: 1,
            requests: self.requests,
            crowds: 1,
            crowd_turns: self.turns,
            light_messages: self.judge.light_messages,
            limited: self.judge.limited,
            guaranteed: self.judge.guaranteed,
            ..Summary::default()
        })
    }

    /// Lets owners post: greedy ones fill their queues, light ones post what is due.
    fn post(&mut self) -> Result<(), Violation> {
        for number in 0..self.tenants.len() {
            let Sender {
                adapter, qp, does, ..
            } = self.tenants[number];
            match does {
                Does::Greedy { .. } => {
                    let room = self.cluster.member(adapter).hca.send_room(qp);
                    for _ in 0..room {
                        self.post_one(number)?;
                    }
                }
                Does::Light { pause_ns } => {
                    if self.cluster.now >= self.tenants[number].posts_at {
                        self.post_one(number)?;
                        let now = self.cluster.now;
                        self.judge.posts(number, self.turns);
                        let pause = self.random.u64(pause_ns / 2..pause_ns);
                        self.tenants[number].posts_at = Time(now.0 + pause);
                    }
                }
            }
        }
        Ok(())
    }

    fn post_one(&mut self, number: usize) -> Result<(), Violation> {
        let tenant = &self.tenants[number];
        let reads = matches!(tenant.does, Does::Greedy { reads: true, .. });
        let op = match reads {
            true => SendOp::Read(tenant.remote),
            false => SendOp::Write(tenant.remote),
        };
        let mut wr = SendWr::new(number as u64, op);
        wr.sges = [tenant.local].into_iter().collect();
        wr.signaled = true;
        let (adapter, qp) = (tenant.adapter, tenant.qp);
        let posted = self.cluster.hca(adapter).post_send(qp, wr);
        posted.map_err(Violation::from_error)
    }

    fn take_completions(&mut self) -> Result<(), Violation> {
        let unshown = self.cluster.log.unshown();
        check(unshown.is_none(), || {
            format!("the owner of {unshown:?} is never told what happened")
        })?;
        while let Some((adapter, output)) = self.cluster.log.next_output() {
            let Output::SendDone {
                count: 1,
                completion: Some(completion),
                ..
            } = output
            else {
                return Err(Violation::new(format!("a{adapter} hands out {output:?}")));
            };
            check(completion.status == Status::Success, || {
                format!("a{adapter} fails: {completion:?}")
            })?;
            self.requests += 1;
            self.judge
                .completes(completion.wr_id as usize, self.turns)?;
        }
        Ok(())
    }

    /// Judges what moved in this turn, and lets its time pass; if nothing moved, the clock goes to the next event.
    fn take_stock(&mut self) -> Result<(), Violation> {
        let now = self.cluster.now;
        let mut took = 0;
        for (number, tenant) in self.tenants.iter_mut().enumerate() {
            let carried = self.cluster.member(tenant.adapter).carried;
            let moved = carried - std::mem::replace(&mut tenant.seen, carried);
            took += cost(moved);
            self.judge.moves(number, moved, now)?;
        }
        self.judge.end_turn(now);
        let next = match took {
            0 => {
                let posts = self.tenants.iter().filter(|it| it.does.is_light());
                let next = posts
                    .map(|tenant| tenant.posts_at)
                    .chain(self.cluster.next());
                next.min().unwrap_or(now).max(Time(now.0 + 1))
            }
            took => Time(now.0 + took),
        };
        self.cluster.reach(next);
        Ok(())
    }
}
