//! The checkers: every completion is compared with what was asked for.
//!
//! * Requests complete once, in order, with the right kind and length; after the first that fails, all others are
//!   flushed.
//! * A reliable message has arrived before its request succeeds: the receive has completed, the memory is written, the
//!   word was changed once.
//! * Receives complete once, in order; reliable messages arrive in order and whole, unreliable ones whole.
//! * Which failures are allowed depends on the weather.

mod receive;

use vrdma_verbs::object::QpId;
use vrdma_verbs::work::{Completion, Event, Output, Status};

use crate::end::{Op, Work, pattern};
use crate::plan::Weather;
use crate::violation::{Violation, check};
use crate::world::World;

impl World {
    pub(crate) fn judge_outputs(&mut self) -> Result<(), Violation> {
        while let Some((adapter, output)) = self.cluster.log.next_output() {
            self.cluster
                .say(|| format!("a{adapter} hands out {output:?}"));
            match output {
                Output::SendDone {
                    qp,
                    count,
                    completion,
                    ..
                } => {
                    for _ in 1..count {
                        self.judge_send(adapter, qp, None)?;
                    }
                    self.judge_send(adapter, qp, completion)?;
                }
                Output::RecvDone { completion, .. } => self.judge_receive(adapter, &completion)?,
                Output::Event(event) => self.judge_event(adapter, event)?,
            }
        }
        Ok(())
    }

    fn end_of(&self, adapter: usize, qp: QpId) -> Result<usize, Violation> {
        let end = self.ends_by_qp.get(&(adapter, qp)).copied();
        end.ok_or_else(|| {
            Violation::new(format!(
                "a{adapter} completes for {qp:?}, which nobody made"
            ))
        })
    }

    fn judge_send(
        &mut self,
        adapter: usize,
        qp: QpId,
        completion: Option<Completion>,
    ) -> Result<(), Violation> {
        let number = self.end_of(adapter, qp)?;
        let end = &mut self.ends[number];
        let at = end.done;
        let Some(work) = end.works.get(at).cloned() else {
            return Err(Violation::new(format!(
                "e{number} completes a request more than were posted"
            )));
        };
        end.done += 1;
        let wanted = work.signaled || end.signal_all;
        let Some(completion) = completion else {
            check(!wanted, || {
                format!("e{number} forgets the completion of request {at}")
            })?;
            return self.judge_success(number, at, &work);
        };
        let id = end.wr_id(at);
        check(completion.wr_id == id, || {
            format!(
                "e{number} completes {:#x}, and {id:#x} is the next",
                completion.wr_id
            )
        })?;
        check(completion.op == work.op.completes_as(), || {
            format!("e{number} completes request {at} as {:?}", completion.op)
        })?;
        if completion.status != Status::Success {
            return self.judge_failure(number, at, completion.status);
        }
        check(wanted, || {
            format!("e{number} completes request {at}, which was not signalled")
        })?;
        let length = completion.byte_len;
        check(length == work.length, || {
            format!(
                "e{number} completes request {at} with {length} bytes instead of {}",
                work.length
            )
        })?;
        self.judge_success(number, at, &work)
    }

    fn judge_failure(&mut self, number: usize, at: usize, status: Status) -> Result<(), Violation> {
        let end = &self.ends[number];
        let legal = match (end.failed, status) {
            (Some(_), Status::WrFlush) => true,
            (None, Status::RetryExc) => end.is_reliable() && self.may_lose(number),
            (None, Status::RnrRetryExc) => end.is_reliable() && !end.rnr_for_ever,
            _ => false,
        };
        let weather = self.plan.weather;
        check(legal, || {
            let before = end.failed;
            format!(
                "e{number} fails request {at} with {status:?} in {weather:?} weather (before: {before:?})"
            )
        })?;
        self.ends[number].failed.get_or_insert(status);
        Ok(())
    }

    /// Whether a peer may be silent for as long as retries last, without a fault of an adapter.
    fn may_lose(&self, number: usize) -> bool {
        let peer = &self.ends[self.ends[number].peer];
        self.plan.weather == Weather::Rough || peer.failed.is_some()
    }

    fn judge_success(&mut self, number: usize, at: usize, work: &Work) -> Result<(), Violation> {
        let end = &self.ends[number];
        check(end.failed.is_none(), || {
            format!("e{number} completes request {at} after it failed")
        })?;
        if !end.is_reliable() {
            return Ok(());
        }
        let there = !work.op.takes_receive() || end.arrived > work.message;
        check(there, || {
            format!("e{number} completes message {at}, which has not arrived")
        })?;
        let peer = &self.ends[end.peer];
        let (memory, remote) = (
            &self.cluster.memories[end.adapter],
            &self.cluster.memories[peer.adapter],
        );
        let expected = pattern(number, at).take(work.length as usize);
        let wrong = match work.op {
            Op::Write | Op::WriteImm => remote.differs(peer.target.region, work.remote, expected),
            Op::Read => memory.differs(end.local.region, work.local, expected),
            Op::FetchAdd(_) | Op::CompareSwap(..) => {
                self.ends[number].atomics_done += 1;
                let before = work.word_before.to_le_bytes();
                memory.differs(
                    self.ends[number].local.region,
                    work.local,
                    before.into_iter(),
                )
            }
            Op::Send | Op::SendImm => None,
        };
        check(wrong.is_none(), || {
            format!(
                "e{number} completes request {at}, {:?}, and its bytes are wrong: {wrong:x?} (place, is, should be)",
                work.op
            )
        })
    }

    fn judge_event(&mut self, adapter: usize, event: Event) -> Result<(), Violation> {
        self.events += 1;
        let usual = matches!(event, Event::CommEstablished(_) | Event::LastWqeReached(_));
        check(usual, || format!("a{adapter} raises {event:?}"))
    }
}
