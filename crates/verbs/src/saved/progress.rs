//! The state of a queue pair that changes with each message, in few bytes: small enough to be written before each
//! completion is shown.
//!
//! ```text
//!    0  state (u8)         1  flags (u8)          2  number of replays (u16)
//!    4  first (u32): PSN of the oldest send request that is not finished
//!    8  done (u64): which of the requests from that one on are finished, a bit each
//!   16  expected (u32)    20  MSN (u32)          24  stored or left (u32)   28  length (u32)
//!   32  address (u64)     40  rkey (u32)         44  newest data (3 bytes)
//!   47  replays: PSN (3 bytes), word before (u64)
//! ```
//! All little-endian. Requests themselves are not in it: they stay in their owner's ring until they are finished, and
//! are fetched again. So is the receive of a message that is under way.

use alloc::vec::Vec;

use vrdma_wire::Psn;

use crate::hca::Hca;
use crate::object::QpId;
use crate::qp::Qp;
use crate::requester::{Drain, Phase};
use crate::responder::{Message, REPLAYS_MIN};
use crate::saved::{RestoreError, check, record};

/// Bytes in front of the replays.
const FIXED: usize = 47;

/// Bytes of a replay.
const REPLAY: usize = 11;

/// Most replays that are kept: as many as most adapters offer, and the newest ones of more.
const REPLAYS: usize = REPLAYS_MIN;

/// Most bytes of a progress.
pub const PROGRESS_BYTES: usize = FIXED + REPLAYS * REPLAY;

mod flag {
    pub(super) const TOLD: u8 = 1;
    pub(super) const ESTABLISHED: u8 = 1 << 1;
    pub(super) const DRAIN: u8 = 1 << 2;
    pub(super) const SEND: u8 = 1 << 3;
    pub(super) const WRITE: u8 = 1 << 4;
    pub(super) const DATA: u8 = 1 << 5;
    pub(super) const ALL: u8 = (1 << 6) - 1;
}

impl<R: Clone> Hca<R> {
    /// Appends a queue pair's progress; false if there is no such queue pair. Its outputs must have been polled.
    pub fn save_progress(&self, id: QpId, into: &mut Vec<u8>) -> bool {
        let Some(qp) = self.qps.get(id.0) else {
            return false;
        };
        qp.save_progress(into);
        true
    }
}

impl<R> Qp<R> {
    fn save_progress(&self, into: &mut Vec<u8>) {
        let responder = &self.responder;
        let (mut flags, mut part, mut length) = (self.flags(), 0, 0);
        let (mut address, mut rkey) = (0, 0);
        match &responder.message {
            Message::None => {}
            Message::Send { stored, .. } => {
                flags |= flag::SEND;
                part = *stored;
            }
            Message::Write {
                remote,
                left,
                length: whole,
            } => {
                flags |= flag::WRITE;
                (part, length) = (*left, *whole);
                (address, rkey) = (remote.addr, remote.rkey.0);
            }
        }
        let skipped = responder.replays.len().saturating_sub(REPLAYS);
        let replays = responder.replays.iter().skip(skipped);
        let newest_data = responder.newest_data.map_or(0, Psn::get);
        let mut fixed = [0; FIXED];
        let mut put = |at: usize, bytes: &[u8]| fixed[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[self.attr.state as u8, flags]);
        put(2, &(replays.len() as u16).to_le_bytes());
        put(4, &self.first_unfinished().get().to_le_bytes());
        put(8, &self.done_ahead().to_le_bytes());
        put(16, &responder.expected.get().to_le_bytes());
        put(20, &responder.msn.to_le_bytes());
        put(24, &part.to_le_bytes());
        put(28, &length.to_le_bytes());
        put(32, &address.to_le_bytes());
        put(40, &rkey.to_le_bytes());
        put(44, &newest_data.to_le_bytes()[..3]);
        into.extend_from_slice(&fixed);
        for replay in replays {
            into.extend(&replay.psn.get().to_le_bytes()[..3]);
            into.extend(replay.old.to_le_bytes());
        }
    }

    fn flags(&self) -> u8 {
        let responder = &self.responder;
        let flags = [
            (responder.told, flag::TOLD),
            (responder.established, flag::ESTABLISHED),
            (self.requester.drain == Drain::Notify, flag::DRAIN),
            (responder.newest_data.is_some(), flag::DATA),
        ];
        let set = flags.into_iter().filter(|(is_set, _)| *is_set);
        set.fold(0, |flags, (_, flag)| flags | flag)
    }

    /// Returns the first unfinished PSN. Requests of a connection begin anew with it; datagrams have no PSN that
    /// anybody waits for.
    fn first_unfinished(&self) -> Psn {
        let requester = &self.requester;
        let begun = requester.queue.iter().find(|it| it.phase == Phase::Started);
        match begun.filter(|_| self.is_connected()) {
            Some(pending) => pending.first,
            None => requester.sent,
        }
    }

    fn done_ahead(&self) -> u64 {
        if self.requester.done_early == 0 {
            return 0;
        }
        let requests = self.requester.queue.iter().take(u64::BITS as usize);
        let done = (0..)
            .zip(requests)
            .filter(|(_, it)| it.phase == Phase::Done);
        done.fold(0, |done, (place, _)| done | 1 << place)
    }
}

/// A progress as it was read; nothing in it is trusted.
pub(super) struct Progress<'a>(&'a [u8]);

impl<'a> Progress<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, RestoreError> {
        let progress = Self(bytes);
        let replays = bytes.get(2..4).map(|_| progress.replays());
        let whole =
            replays.is_some_and(|count| count <= REPLAYS && bytes.len() == FIXED + count * REPLAY);
        check(whole, "the progress of a queue pair has a wrong length")?;
        let known = progress.flags() & !flag::ALL == 0;
        check(known, "the progress of a queue pair has unknown flags")?;
        Ok(progress)
    }

    fn replays(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[2], self.0[3]]))
    }

    fn flags(&self) -> u8 {
        self.0[1]
    }

    fn has(&self, flag: u8) -> bool {
        self.flags() & flag != 0
    }

    fn word(&self, at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.0[at..at + 4]);
        u32::from_le_bytes(word)
    }

    fn long(&self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 4)) << 32
    }

    /// Returns which requests were finished before older ones.
    pub(super) fn done_ahead(&self) -> u64 {
        self.long(8)
    }

    /// Returns the PSN at which the newest READ or atomic began.
    pub(super) fn newest_data(&self) -> Option<Psn> {
        self.has(flag::DATA)
            .then(|| Psn::new(u32::from_le_bytes([self.0[44], self.0[45], self.0[46], 0])))
    }

    /// Replaces the state from the queue pair's record by this progress. `receive` is the one that a SEND under way has
    /// taken.
    pub(super) fn apply(
        &self,
        qp: &mut record::Qp,
        receive: Option<record::Receive>,
    ) -> Result<(), RestoreError> {
        qp.attr.state = self.0[0].into();
        qp.requester = record::Requester {
            unacked: self.word(4),
            drain_event: self.has(flag::DRAIN),
            ..Default::default()
        };
        qp.responder = record::Responder {
            expected: self.word(16),
            msn: self.word(20),
            told: self.has(flag::TOLD),
            established: self.has(flag::ESTABLISHED),
            replays: self.replayed(),
            ..Default::default()
        };
        if self.has(flag::SEND) {
            const LOST: RestoreError =
                RestoreError::Inconsistent("the receive of a message under way is gone");
            qp.responder.send = Some(record::SendUnderWay {
                receive: receive.ok_or(LOST)?,
                stored: self.word(24),
            });
        }
        if self.has(flag::WRITE) {
            qp.responder.write = Some(record::WriteUnderWay {
                left: self.word(24),
                length: self.word(28),
                addr: self.long(32),
                rkey: self.word(40),
            });
        }
        Ok(())
    }

    /// Whether a SEND is under way.
    pub(super) fn wants_receive(&self) -> bool {
        self.has(flag::SEND)
    }

    fn replayed(&self) -> Vec<record::Replay> {
        let replays = self.0[FIXED..].chunks_exact(REPLAY);
        let replays = replays.map(|bytes| {
            let psn = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
            let mut old = [0; 8];
            old.copy_from_slice(&bytes[3..]);
            record::Replay {
                psn,
                old: u64::from_le_bytes(old),
            }
        });
        replays.collect()
    }
}
