//! Atomics, written down before they touch memory.
//!
//! ```text
//!   word read ──► Intent noted ──► word written ──► ... ──► progress committed, intents cleared
//! ```
//! A process that ends in between leaves a word that was changed and a queue pair that says it was not. Whoever goes on
//! knows by the intent: the atomic was done if its word is no more what it was. Atomics before it were done, and are in
//! their queue pairs' progress, which was committed with it.
//!
//! So an atomic is done once as long as nobody else changes the word between its note and the end of the process, or puts
//! back what it was. A word that is neither the old nor the new one was changed by somebody else: the atomic is taken to be
//! done, since most of the time between its note and the commit is after it.

use alloc::boxed::Box;
use core::cell::RefCell;

use vrdma_wire::{Psn, Rkey};

use crate::attr::{Access, QpState};
use crate::hca::Hca;
use crate::memory::Memory;
use crate::object::QpId;
use crate::responder::{REPLAYS_MIN, Replay};
use crate::work::Remote;

/// Bytes of one as it is written down.
pub const INTENT_BYTES: usize = 36;

/// Size of the word (IBTA 9.4.5).
const WORD_BYTES: u32 = 8;

/// An atomic that is about to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intent {
    /// Whose responder does it.
    pub qp: QpId,
    /// Of the request.
    pub psn: Psn,
    /// The word, in the peer's terms.
    pub word: Remote,
    /// What it was.
    pub old: u64,
    /// What it becomes.
    pub new: u64,
}

/// Where intents are written down. What is noted counts at once.
pub trait IntentLog: Send {
    /// An atomic is about to be done. A later note of the same request takes the place of the one before.
    fn note(&mut self, intent: &Intent);

    /// All that was noted is in the queue pairs' progress: none of it counts from the next commit on.
    fn clear(&mut self);
}

impl Intent {
    /// As it is written down.
    pub fn to_bytes(&self) -> [u8; INTENT_BYTES] {
        let mut bytes = [0; INTENT_BYTES];
        bytes[..4].copy_from_slice(&self.qp.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.psn.get().to_le_bytes());
        bytes[8..16].copy_from_slice(&self.word.addr.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.word.rkey.0.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.old.to_le_bytes());
        bytes[28..].copy_from_slice(&self.new.to_le_bytes());
        bytes
    }

    /// From what was written down.
    pub fn from_bytes(bytes: &[u8; INTENT_BYTES]) -> Self {
        let word = |at| u32::from_le_bytes([0, 1, 2, 3].map(|place: usize| bytes[at + place]));
        let long = |at| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Self {
            qp: QpId(word(0)),
            psn: Psn::new(word(4)),
            word: Remote {
                addr: long(8),
                rkey: Rkey(word(16)),
            },
            old: long(20),
            new: long(28),
        }
    }
}

/// The log of an adapter, if it has one.
pub(crate) type Log = Option<Box<dyn IntentLog>>;

/// An update that is noted each time before it is tried.
pub(crate) fn noted<'a>(
    log: &'a RefCell<&'a mut Log>,
    intent: Intent,
    update: &'a dyn Fn(u64) -> u64,
) -> impl Fn(u64) -> u64 + 'a {
    move |old| {
        let new = update(old);
        if let Some(log) = &mut **log.borrow_mut() {
            log.note(&Intent { old, new, ..intent });
        }
        new
    }
}

impl<R: Clone> Hca<R> {
    /// Notes atomics from now on.
    pub fn log_intents(&mut self, log: Box<dyn IntentLog>) {
        self.shared.intents = Some(log);
    }

    /// Notes none any more.
    pub fn stop_intents(&mut self) {
        self.shared.intents = None;
    }

    /// The progress of all queue pairs is about to be committed.
    pub fn clear_intents(&mut self) {
        if let Some(log) = &mut self.shared.intents {
            log.clear();
        }
    }

    /// Goes on after a process that has noted this last: what was done is not done again. Whether its queue pair has come
    /// further by that.
    pub fn conclude<M: Memory<Region = R>>(&mut self, intent: &Intent, memory: &M) -> bool {
        self.was_done(intent, memory) && self.take_as_done(intent)
    }

    fn was_done<M: Memory<Region = R>>(&self, intent: &Intent, memory: &M) -> bool {
        let Some(qp) = self.qps.get(intent.qp.0) else {
            return false;
        };
        let right = Access::REMOTE_ATOMIC;
        let spot = self.shared.remote(qp, intent.word, WORD_BYTES, right);
        let mut word = [0; WORD_BYTES as usize];
        let read =
            spot.is_some_and(|spot| memory.read(spot.region, spot.offset, &mut word).is_ok());
        // One that changes nothing may as well be done again.
        read && u64::from_le_bytes(word) != intent.old
    }

    /// Whether it is news to the queue pair.
    fn take_as_done(&mut self, intent: &Intent) -> bool {
        let Some(qp) = self.qps.get_mut(intent.qp.0) else {
            return false;
        };
        let receives = matches!(qp.state(), QpState::Rtr | QpState::Rts | QpState::Sqd);
        if !receives || !qp.is_reliable() || qp.responder.expected != intent.psn {
            return false;
        }
        let room = usize::from(qp.attr.max_dest_rd_atomic).max(REPLAYS_MIN);
        let responder = &mut qp.responder;
        while responder.replays.len() >= room {
            responder.replays.pop_front();
        }
        responder.replays.push_back(Replay {
            psn: intent.psn,
            old: intent.old,
        });
        responder.expected = intent.psn.plus(1);
        responder.msn = responder.msn.wrapping_add(1) & 0xff_ffff;
        responder.newest_data = Some(intent.psn);
        responder.established = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_comes_back_from_its_bytes() {
        let intent = Intent {
            qp: QpId(0x0102_0304),
            psn: Psn::new(0x0a_0b0c),
            word: Remote {
                addr: 0x1112_1314_1516_1718,
                rkey: Rkey(0x2122_2324),
            },
            old: 0x3132_3334_3536_3738,
            new: u64::MAX,
        };
        assert_eq!(Intent::from_bytes(&intent.to_bytes()), intent);
    }
}
