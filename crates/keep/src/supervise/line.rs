//! Messages between keeper and worker: that a worker serves, and how an upgrade ended.
//!
//! ```text
//!   keeper ── Attempt, as JSON ──► worker
//!          ◄── READY ─────────────
//! ```
//! Messages are datagrams, and neither side waits. A message that finds no room is lost: the next worker is told the
//! latest attempt when it begins, and a keeper looks for READY only while a worker is on trial.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

const READY: &[u8] = b"READY";
/// The longest sentence that is passed on, in bytes.
const SENTENCE_MAX: usize = 512;
/// The longest attempt as JSON, where each byte of the sentence may need six.
const MESSAGE_MAX: usize = 128 + 6 * SENTENCE_MAX;

/// How a request for another program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Number of the attempt, counted from 1 by the keeper, over all its programs.
    pub number: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it was not done; empty if it was.
    pub sentence: String,
}

/// The end of an [`Attempt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The other program serves.
    Done,
    /// Nothing was changed.
    Refused,
    /// The other program could not serve, and the previous one serves again.
    WentBack,
}

impl Attempt {
    pub(super) fn new(number: u32, outcome: Outcome, sentence: &str) -> Self {
        let fits = |&(at, character): &(usize, char)| at + character.len_utf8() <= SENTENCE_MAX;
        let characters = sentence.char_indices().take_while(fits);
        Self {
            number,
            outcome,
            sentence: characters.map(|(_, character)| character).collect(),
        }
    }
}

/// Both ends of the line, which are in the keeper and in the descriptor table that it shares with its workers.
#[derive(Debug)]
pub(super) struct Line {
    keeper: UnixDatagram,
    worker: UnixDatagram,
}

impl Line {
    pub(super) fn new() -> io::Result<Self> {
        let (keeper, worker) = UnixDatagram::pair()?;
        Self::of(keeper, worker)
    }

    fn of(keeper: UnixDatagram, worker: UnixDatagram) -> io::Result<Self> {
        keeper.set_nonblocking(true)?;
        worker.set_nonblocking(true)?;
        Ok(Self { keeper, worker })
    }

    /// Takes over the line of an earlier keeper, from its two ends.
    pub(super) fn from_ends(keeper: OwnedFd, worker: OwnedFd) -> io::Result<Self> {
        Self::of(keeper.into(), worker.into())
    }

    pub(super) fn numbers(&self) -> [RawFd; 2] {
        [self.keeper.as_raw_fd(), self.worker.as_raw_fd()]
    }

    /// Sends an attempt to the worker, if there is room.
    pub(super) fn tell(&self, attempt: &Attempt) {
        let message = serde_json::to_vec(attempt).unwrap_or_default();
        // See the module head.
        let _ = self.keeper.send(&message);
    }

    /// Whether a worker has said that it serves since the last call.
    pub(super) fn heard_ready(&self) -> bool {
        let mut message = [0; READY.len()];
        let mut heard = false;
        while let Ok(length) = self.keeper.recv(&mut message) {
            heard |= &message[..length] == READY;
        }
        heard
    }

    /// Returns the worker's end, for a new worker.
    pub(super) fn for_worker(&self, last: Option<Attempt>) -> io::Result<WorkerLine> {
        Ok(WorkerLine {
            socket: self.worker.try_clone()?,
            last: Mutex::new(last),
        })
    }
}

/// A worker's line to its keeper.
#[derive(Debug)]
pub struct WorkerLine {
    socket: UnixDatagram,
    last: Mutex<Option<Attempt>>,
}

impl WorkerLine {
    /// Says that this worker serves. The first worker of another program is on trial until then.
    pub fn tell_ready(&self) {
        // See the module head.
        let _ = self.socket.send(READY);
    }

    /// Returns the latest attempt to go on with another program.
    pub fn last_attempt(&self) -> Option<Attempt> {
        let mut last = self.lock();
        let mut message = [0; MESSAGE_MAX];
        while let Ok(length) = self.socket.recv(&mut message) {
            let Ok(told) = serde_json::from_slice::<Attempt>(&message[..length]) else {
                continue;
            };
            // An attempt that an earlier worker was told and did not read is older.
            if last.as_ref().is_none_or(|last| last.number < told.number) {
                *last = Some(told);
            }
        }
        last.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Attempt>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_told_the_latest_attempt_whatever_is_left_from_before() {
        let line = Line::new().unwrap();
        for number in 1..4 {
            line.tell(&Attempt::new(number, Outcome::Refused, "no"));
        }
        let worker = line
            .for_worker(Some(Attempt::new(2, Outcome::Done, "")))
            .unwrap();
        assert_eq!(worker.last_attempt().unwrap().number, 3);
        assert_eq!(worker.last_attempt().unwrap().number, 3);
    }

    #[test]
    fn nobody_waits_for_who_does_not_read() {
        let line = Line::new().unwrap();
        let worker = line.for_worker(None).unwrap();
        for number in 0..10_000 {
            line.tell(&Attempt::new(number, Outcome::Refused, ""));
            worker.tell_ready();
        }
        assert!(line.heard_ready());
        assert!(!line.heard_ready());
    }

    #[test]
    fn the_longest_sentence_is_told_whole() {
        let line = Line::new().unwrap();
        let worker = line.for_worker(None).unwrap();
        let attempt = Attempt::new(u32::MAX, Outcome::WentBack, &"\u{1}".repeat(600));
        line.tell(&attempt);
        assert_eq!(attempt.sentence.len(), SENTENCE_MAX);
        assert_eq!(worker.last_attempt(), Some(attempt));
    }
}
