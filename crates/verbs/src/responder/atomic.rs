//! Atomics, which are done once and answered as often as they are asked for.

use core::cell::RefCell;

use vrdma_wire::Psn;

use crate::attr::Access;
use crate::intent::{Intent, Log, noted};
use crate::memory::{Fault, Memory};
use crate::responder::refuse::Refusal;
use crate::responder::{Delivery, REPLAYS_MIN, Replay};
use crate::unit::ResponseBody;
use crate::work::Remote;

/// Size and alignment of the word (IBTA 9.4.5).
const WORD_BYTES: u32 = 8;

impl<R: Clone, M: Memory<Region = R>> Delivery<'_, R, M> {
    pub(super) fn atomic(
        &mut self,
        remote: Remote,
        update: &dyn Fn(u64) -> u64,
    ) -> Result<ResponseBody<R>, Refusal> {
        let right = Access::REMOTE_ATOMIC;
        self.check_right(right)?;
        if !remote.addr.is_multiple_of(u64::from(WORD_BYTES)) {
            return Err(Refusal::Invalid);
        }
        let mut log = self.shared.intents.take();
        let old = self.fetch_noted(remote, update, &mut log);
        self.shared.intents = log;
        let old = old?;
        self.remember(old);
        Ok(ResponseBody::Atomic(old))
    }

    fn fetch_noted(
        &self,
        remote: Remote,
        update: &dyn Fn(u64) -> u64,
        log: &mut Log,
    ) -> Result<u64, Refusal> {
        let right = Access::REMOTE_ATOMIC;
        let spot = self.shared.remote(self.qp, remote, WORD_BYTES, right);
        let spot = spot.ok_or(Refusal::Access)?;
        let intent = Intent {
            qp: self.qp.id,
            psn: self.request.psn,
            word: remote,
            old: 0,
            new: 0,
        };
        let log = RefCell::new(log);
        let update = noted(&log, intent, update);
        let old = self.memory.fetch_update(spot.region, spot.offset, &update);
        old.map_err(|fault| match fault {
            Fault::Gone => Refusal::OwnMemory,
            Fault::Late => Refusal::Late,
        })
    }

    fn remember(&mut self, old: u64) {
        let room = usize::from(self.qp.attr.max_dest_rd_atomic);
        let psn = self.request.psn;
        let replays = &mut self.qp.responder.replays;
        while replays.len() >= room.max(REPLAYS_MIN) {
            replays.pop_front();
        }
        debug_assert!(
            replays
                .back()
                .is_none_or(|newest| newest.psn.is_before(psn)),
            "newest last"
        );
        replays.push_back(Replay { psn, old });
    }

    /// Returns the answer of the atomic with that PSN. It is forgotten when the peer has had more outstanding than were
    /// agreed, and more than are kept anyway.
    pub(super) fn replayed(&self, psn: Psn) -> Option<u64> {
        let replays = &self.qp.responder.replays;
        let found = replays.iter().rev().find(|replay| replay.psn == psn);
        found.map(|replay| replay.old)
    }
}
