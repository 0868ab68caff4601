//! Conversion of ring entries to completions, in the order of the queue.
//!
//! The entries of a queue pair that was destroyed must not be seen any more. So [`Ring::forget`] goes through the ring
//! once at the destruction and keeps the entries of others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use vrdma_provider::client::CompletionQueue;
use vrdma_provider::layout::Completion;

use crate::abi;
use crate::patience::{Patience, Rest};
use crate::region::{Regions, put_in_place};

/// `IBV_WC_RECV`: the bit that operations of receives have.
const RECV: u32 = 1 << 7;

/// The state that the lock of a CQ protects.
pub(crate) struct Ring {
    pub(crate) queue: CompletionQueue,
    /// Regions into which messages go that come with completions.
    regions: Arc<Regions>,
    /// Completions taken from the ring when a queue pair went away, older than all in the ring.
    kept: VecDeque<Completion>,
    /// Completions of requests that this process carried out, older than all that the daemon may still owe.
    own: VecDeque<Completion>,
    /// Completions that the daemon owes for requests of this CQ; counted for `--fast-local` only.
    owed: u32,
    /// The completion that the `ibv_wc_read_*` functions read.
    pub(crate) current: Completion,
    pub(crate) patience: Patience,
}

impl Ring {
    pub(crate) fn new(queue: CompletionQueue, regions: Arc<Regions>) -> Self {
        Self {
            queue,
            regions,
            kept: VecDeque::new(),
            own: VecDeque::new(),
            owed: 0,
            current: Completion::default(),
            patience: Patience::new(Instant::now()),
        }
    }

    /// Takes the oldest completion.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Completion> {
        if let Some(completion) = self.own.pop_front() {
            return Some(completion);
        }
        let kept = self.kept.pop_front();
        let completion = kept.or_else(|| self.take())?;
        Self::count(&mut self.owed, &completion);
        Some(completion)
    }

    /// Takes the oldest completion in the ring, and puts its message in place.
    #[inline]
    fn take(&mut self) -> Option<Completion> {
        let Self { queue, regions, .. } = self;
        queue.poll(|_, message| put_in_place(regions, message))
    }

    /// Notes that a signaled request was posted to the daemon.
    pub(crate) fn owe(&mut self) {
        self.owed += 1;
    }

    /// Counts a completion. A failed request may not have been signaled: the count then stays, and with it `takes_own`
    /// false, which is safe.
    #[inline]
    fn count(owed: &mut u32, completion: &Completion) {
        if completion.status == 0 && completion.opcode & RECV == 0 {
            *owed = owed.saturating_sub(1);
        }
    }

    /// Whether a completion of our own may be put here now.
    pub(crate) fn takes_own(&self, signaled: bool) -> bool {
        let room = !signaled || self.own.len() < self.queue.entries();
        self.owed == 0 && room
    }

    /// Puts a completion of our own here.
    pub(crate) fn push_own(&mut self, completion: Completion) {
        self.own.push_back(completion);
    }

    /// Drops the completions of a queue pair that the daemon has destroyed.
    pub(crate) fn forget(&mut self, qp_num: u32) {
        self.own.retain(|completion| completion.qp_num != qp_num);
        let mut older = std::mem::take(&mut self.kept);
        let Self { queue, regions, .. } = self;
        // What the destroyed queue pair received is not put in place: its memory may be the program's again.
        let mut take = || {
            queue.poll(|completion, message| {
                if completion.qp_num != qp_num {
                    put_in_place(regions, message);
                }
            })
        };
        while let Some(completion) = older.pop_front().or_else(&mut take) {
            if completion.qp_num == qp_num {
                Self::count(&mut self.owed, &completion);
            } else {
                self.kept.push_back(completion);
            }
        }
    }

    /// Returns what the poll does next, after it has found that many.
    #[inline]
    pub(crate) fn rest(&mut self, found: usize) -> Rest {
        if found == 0 {
            return self.patience.found_nothing(Instant::now);
        }
        self.patience.found(Instant::now, switches);
        Rest::Return
    }
}

/// Returns this thread's involuntary context switches (getrusage(2)), which those of `sched_yield` are among; `None` if
/// the kernel does not tell.
fn switches() -> Option<u64> {
    // SAFETY: numbers.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: a place for what the kernel tells.
    let outcome = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (outcome == 0).then_some(usage.ru_nivcsw as u64)
}

/// Converts a completion to `struct ibv_wc`.
#[inline]
pub(crate) fn to_wc(completion: &Completion) -> abi::Wc {
    abi::Wc {
        wr_id: completion.wr_id,
        status: completion.status,
        opcode: completion.opcode,
        vendor_err: 0,
        byte_len: completion.byte_len,
        imm_data: u32::from_ne_bytes(completion.imm),
        qp_num: completion.qp_num,
        src_qp: completion.src_qp,
        wc_flags: completion.flags,
        pkey_index: 0,
        slid: 0,
        sl: completion.sl as u8,
        dlid_path_bits: 0,
    }
}

#[cfg(test)]
mod tests {
    use vrdma_provider::area::Area;
    use vrdma_provider::daemon::{CompletionRing, CqPlan};

    use super::*;

    /// Returns a queue that holds an entry of each of these queue pairs, numbered in order.
    fn filled(numbers: &[u32]) -> (Ring, CompletionRing) {
        let plan = CqPlan::new(8, true).expect("a small queue");
        let (area, _) = Area::create("test", plan.bytes as usize).expect("memory");
        let area = Arc::new(area);
        let mut writer = CompletionRing::new(Arc::clone(&area), plan.ring);
        for (qp_num, wr_id) in numbers.iter().zip(0..) {
            let entry = Completion {
                wr_id,
                qp_num: *qp_num,
                ..Completion::default()
            };
            writer.write(&entry).expect("room");
        }
        writer.publish();
        (
            Ring::new(
                CompletionQueue::new(area, plan.ring).expect("a queue"),
                Arc::default(),
            ),
            writer,
        )
    }

    fn rest(ring: &mut Ring) -> Vec<u64> {
        std::iter::from_fn(|| ring.next())
            .map(|completion| completion.wr_id)
            .collect()
    }

    #[test]
    fn completions_of_a_destroyed_queue_pair_vanish_and_the_others_keep_their_order() {
        let (mut ring, mut writer) = filled(&[1, 2, 1, 3]);
        ring.forget(1);
        let later = Completion {
            wr_id: 9,
            qp_num: 2,
            ..Completion::default()
        };
        writer.write(&later).expect("room");
        writer.publish();
        ring.forget(3);
        assert_eq!(rest(&mut ring), [1, 9]);
    }

    /// A completion of our own may only be put where it overtakes none of the daemon's.
    #[test]
    fn own_completions_wait_until_the_daemon_owes_none() {
        let (mut ring, _writer) = filled(&[1, 1]);
        let own = |wr_id| Completion {
            wr_id,
            qp_num: 1,
            ..Completion::default()
        };
        ring.owe();
        ring.owe();
        assert!(!ring.takes_own(true));
        ring.next();
        assert!(!ring.takes_own(false), "one is still owed");
        ring.next();
        for wr_id in 10..18 {
            assert!(ring.takes_own(true));
            ring.push_own(own(wr_id));
        }
        assert!(!ring.takes_own(true) && ring.takes_own(false), "it is full");
        assert_eq!(rest(&mut ring), [10, 11, 12, 13, 14, 15, 16, 17]);
    }
}
