//! Intents: records of atomics, written before the atomics touch memory.
//!
//! ```text
//!   word read ──► Intent noted ──► word written ──► ... ──► progress committed, intents cleared
//! ```
//! A process that ends in between leaves a changed word and a queue pair whose progress does not include the atomic.
//! The process that goes on learns it from the intent: the atomic was done if the word no longer has its old value.
//! Earlier atomics were done, and are in their queue pairs' progress, which was committed with the intent.
//!
//! So an atomic is done once, as long as nobody else changes the word between the note and the end of the process, or
//! restores its old value. A word with neither the old nor the new value was changed by somebody else: the atomic is
//! taken to be done, since most of the time between its note and the commit is after it.

use alloc::boxed::Box;
use core::cell::RefCell;

use vrdma_wire::{Psn, Rkey};

use crate::attr::{Access, QpState};
use crate::hca::Hca;
use crate::memory::Memory;
use crate::object::QpId;
use crate::responder::{REPLAYS_MIN, Replay};
use crate::work::Remote;

/// Bytes of a written intent.
pub const INTENT_BYTES: usize = 36;

/// Size of the word (IBTA 9.4.5).
const WORD_BYTES: u32 = 8;

/// An atomic that is about to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intent {
    /// The queue pair whose responder does it.
    pub qp: QpId,
    /// PSN of the request.
    pub psn: Psn,
    /// Address and key of the word, as the peer names it.
    pub word: Remote,
    /// The word's old value.
    pub old: u64,
    /// The word's new value.
    pub new: u64,
}

/// The log of intents. A note is valid at once.
pub trait IntentLog: Send {
    /// Notes an atomic that is about to be done. A later note of the same request replaces the earlier one.
    fn note(&mut self, intent: &Intent);

    /// Clears the log from the next commit on: all noted atomics are in the queue pairs' progress.
    fn clear(&mut self);
}

impl Intent {
    /// Encodes it for writing.
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

    /// Decodes a written intent.
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

/// Wraps an update so that it is noted each time before it is tried.
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
    /// Notes atomics in `log` from now on.
    pub fn log_intents(&mut self, log: Box<dyn IntentLog>) {
        self.shared.intents = Some(log);
    }

    /// Stops noting atomics.
    pub fn stop_intents(&mut self) {
        self.shared.intents = None;
    }

    /// Clears the log: the progress of all queue pairs is about to be committed.
    pub fn clear_intents(&mut self) {
        if let Some(log) = &mut self.shared.intents {
            log.clear();
        }
    }

    /// Goes on after a process whose last note this was: an atomic that was done is not done again. Returns whether its
    /// queue pair has made progress by that.
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
        // An atomic that changes nothing may as well be done again.
        read && u64::from_le_bytes(word) != intent.old
    }

    /// Takes an atomic as done; whether the queue pair did not know that.
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
