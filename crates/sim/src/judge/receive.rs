//! The checkers of receives: which message came, in which order, and whether it is whole.

use vrdma_verbs::object::QpType;
use vrdma_verbs::work::{Completion, Status, Tail, WcOp};

use crate::end::{LABEL_BYTES, Op, RECEIVE, Work, immediate, pattern};
use crate::memory::EMPTY;
use crate::owner::GRH_BYTES;
use crate::violation::{Violation, check};
use crate::world::World;

/// Bytes behind a message that must be unchanged.
const MARGIN_BYTES: usize = 32;

/// The place of a receive's memory.
#[derive(Clone, Copy)]
struct Place {
    /// Number of the pool that the receive is of.
    pool: usize,
    /// Start of the receive's slot in the buffer of the pool.
    slot: u64,
}

impl World {
    pub(super) fn judge_receive(
        &mut self,
        adapter: usize,
        completion: &Completion,
    ) -> Result<(), Violation> {
        let end = self.end_of(adapter, completion.qp)?;
        let number = (completion.wr_id & !RECEIVE) as usize >> 32;
        let at = completion.wr_id as u32 as usize;
        let own = self.ends[end].pool == number && completion.wr_id & RECEIVE != 0;
        check(own, || {
            format!(
                "e{end} completes receive {:#x}, which is not its own",
                completion.wr_id
            )
        })?;
        let pool = &mut self.pools[number];
        let due = if pool.shared { at } else { pool.done };
        let Some(receive) = pool
            .receives
            .get_mut(at)
            .filter(|receive| at == due && !receive.done)
        else {
            return Err(Violation::new(format!(
                "e{end} completes receive {at} out of order, or once more"
            )));
        };
        receive.done = true;
        pool.done += 1;
        let slot = receive.slot;
        if completion.status != Status::Success {
            return self.judge_failed_receive(end, completion.status);
        }
        let failed = self.ends[end].failed;
        check(failed.is_none(), || {
            format!("e{end} receives after it failed with {failed:?}")
        })?;
        let place = Place { pool: number, slot };
        self.judge_message(end, completion, place)?;
        if self.margin_bytes(end) == 0 {
            return Ok(());
        }
        let pool = &mut self.pools[number];
        let used = std::iter::repeat_n(EMPTY, completion.byte_len as usize);
        self.cluster.memories[adapter].fill(pool.buffer.region, slot, used);
        pool.free.push(slot);
        Ok(())
    }

    /// Checks a failed receive: receives are flushed when the send side has failed, and for no other reason.
    fn judge_failed_receive(&mut self, end: usize, status: Status) -> Result<(), Violation> {
        let failed = self.ends[end].failed;
        let legal = status == Status::WrFlush && failed.is_some();
        check(legal, || {
            format!("e{end} fails a receive with {status:?} (the queue pair: {failed:?})")
        })
    }

    fn judge_message(
        &mut self,
        end: usize,
        completion: &Completion,
        place: Place,
    ) -> Result<(), Violation> {
        let sender = self.ends[end].peer;
        let at = self.which_message(end, completion, place)?;
        let Some(work) = self.ends[sender].works.get(at).cloned() else {
            return Err(Violation::new(format!(
                "e{end} receives message {at}, which was never sent"
            )));
        };
        self.judge_head(end, completion, at, &work)?;
        let Place { pool, slot } = place;
        let (region, memory) = (
            self.pools[pool].buffer.region,
            &self.cluster.memories[self.ends[end].adapter],
        );
        let expected = pattern(sender, at).take(work.length as usize);
        let wrong = if work.op == Op::WriteImm {
            memory.differs(self.ends[end].target.region, work.remote, expected)
        } else {
            let start = slot + self.header_bytes(end);
            let margin = std::iter::repeat_n(EMPTY, self.margin_bytes(end));
            memory.differs(region, start, expected.chain(margin))
        };
        check(wrong.is_none(), || {
            format!(
                "e{end} receives message {at} of e{sender} with wrong bytes: {wrong:x?} (place, is, should be)"
            )
        })
    }

    /// Returns the bytes to check behind a message. A receive of an unreliable connection may hold the beginning of a
    /// longer message that was cut off, and is used for the next one.
    fn margin_bytes(&self, end: usize) -> usize {
        match self.ends[end].kind {
            QpType::Uc => 0,
            _ => MARGIN_BYTES,
        }
    }

    /// Checks kind, length, immediate data and addresses of a message.
    fn judge_head(
        &mut self,
        end: usize,
        completion: &Completion,
        at: usize,
        work: &Work,
    ) -> Result<(), Violation> {
        let sender = &self.ends[self.ends[end].peer];
        let op = if work.op == Op::WriteImm {
            WcOp::RecvWriteImm
        } else {
            WcOp::Recv
        };
        let tail = work.op.has_immediate().then(|| Tail::Imm(immediate(at)));
        let header = self.header_bytes(end) as u32;
        let grh = (header > 0).then_some((sender.name.gid, self.ends[end].name.gid));
        let is = (
            completion.op,
            completion.byte_len,
            completion.tail,
            completion.src_qp,
            completion.grh,
        );
        let should = (op, work.length + header, tail, sender.name.qpn, grh);
        check(work.op.takes_receive() && is == should, || {
            format!("e{end} receives message {at} as {is:?} instead of {should:?}")
        })
    }

    fn header_bytes(&self, end: usize) -> u64 {
        let is_datagram = !self.ends[end].kind.is_connected();
        u64::from(GRH_BYTES) * u64::from(is_datagram)
    }

    /// Returns which message it is: reliable messages come in order, others carry their name.
    fn which_message(
        &mut self,
        end: usize,
        completion: &Completion,
        Place { pool, slot }: Place,
    ) -> Result<usize, Violation> {
        let start = slot + self.header_bytes(end);
        let peer = self.ends[end].peer;
        let region = self.pools[pool].buffer.region;
        let label = self.cluster.memories[self.ends[end].adapter].word(region, start);
        let sender = &mut self.ends[peer];
        if sender.is_reliable() {
            let at = sender.messages.get(sender.arrived).copied();
            sender.arrived += 1;
            return at.ok_or_else(|| {
                Violation::new(format!("e{end} receives a message more than were sent"))
            });
        }
        let at = match (completion.op, completion.tail) {
            (WcOp::RecvWriteImm, Some(Tail::Imm(imm))) => u32::from_be_bytes(imm.0) as usize,
            _ => {
                let long = completion.byte_len as u64 >= start - slot + u64::from(LABEL_BYTES);
                let whose = (label >> 32) as usize;
                check(long && whose == peer, || {
                    format!("e{end} receives a message of e{whose}")
                })?;
                label as u32 as usize
            }
        };
        self.judge_repetition(peer, at)
    }

    /// Checks repetition and order of unreliable messages. They may arrive twice only if the network sends frames
    /// twice, a stranger is on it, or a host does not know yet by which of its uplinks to send; and out of order only
    /// if the network lets frames overtake each other.
    fn judge_repetition(&mut self, sender: usize, at: usize) -> Result<usize, Violation> {
        let faults = self.plan.link.faults;
        let flooded = self.plan.uplinks.kinds.len() > 1;
        let twice = faults.duplicate > Default::default() || self.plan.hostility > 0 || flooded;
        let late = faults.reorder > Default::default() || faults.jitter_ns > 0;
        // Messages that an adapter sent from its old host may come after those from the new one.
        let shuffled = twice || late || self.migrations > 0;
        let end = &mut self.ends[sender];
        let times = end.arrivals.entry(at).or_default();
        *times += 1;
        check(*times == 1 || twice, || {
            format!("message {at} of e{sender} arrives twice")
        })?;
        let late = at < end.arrived;
        end.arrived = end.arrived.max(at + 1);
        check(!late || shuffled, || {
            format!("message {at} of e{sender} arrives after a later one")
        })?;
        Ok(at)
    }
}
