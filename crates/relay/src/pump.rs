//! Moves data between a QEMU's end and the connection to the other relay, in both directions, until both have ended.
//!
//! ```text
//!   QEMU ──read──► role (the source's takes pages out) ──► queue ──► connection
//!   QEMU ◄─write── role ◄─────────────────────────────── message ◄── connection
//! ```
//! One piece at a time in each direction: a slow receiver is waited for, and memory is bounded.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::end::{Arrival, End, Piece};
use crate::failure::Failure;
use crate::link::{Link, Write};
use crate::message::Message;
use crate::queue::{Item, Queue, Run};
use crate::sending::silent;

/// Most runs that are handed over at a time.
const RUNS: usize = 64;

/// How long sending the reason to the other relay may take when this one fails.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a side does with the data that passes.
pub(crate) trait Role {
    /// The QEMU of this side, in messages to people.
    const QEMU: &'static str;

    /// Puts data of a piece from QEMU into the queue and returns how many bytes it took.
    fn outward(&mut self, piece: Piece<'_>, queue: &mut Queue) -> Result<usize, Failure>;

    /// Whether nothing is to be read from QEMU for the moment.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Returns those bytes from the other side's QEMU that are for this side's QEMU.
    fn inward(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    /// How long the other relay may be silent before it is disconnected, if that is limited.
    fn silence(&self) -> Option<Duration> {
        None
    }

    /// Called when the other side's QEMU has hung up.
    fn ended(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// The source and destination addresses of a run.
    fn place(&self, run: Run) -> Result<Write, Failure>;
}

pub(crate) struct Pump<'a, E, R> {
    link: &'a mut Link,
    qemu: E,
    role: R,
    queue: Queue,
    /// Bytes for QEMU.
    unwritten: Vec<u8>,
    written: usize,
    qemu_ended: bool,
    peer_ended: bool,
    /// When the last message of the other relay arrived.
    heard: Instant,
}

/// Counts of what passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Pages that were placed.
    pub pages: u64,
    /// Bytes of QEMU's stream that were forwarded.
    pub forwarded_bytes: u64,
}

impl<'a, E: End, R: Role> Pump<'a, E, R> {
    pub(crate) fn new(link: &'a mut Link, qemu: E, role: R) -> Self {
        Self {
            link,
            qemu,
            role,
            queue: Queue::default(),
            unwritten: Vec::new(),
            written: 0,
            qemu_ended: false,
            peer_ended: false,
            heard: Instant::now(),
        }
    }

    /// Runs until both have ended, or one fails: then QEMU's socket is closed, and the other relay is told why.
    pub(crate) fn run(mut self) -> Result<Passed, Failure> {
        let outcome = self.turns();
        if let Err(why) = &outcome {
            self.qemu.shutdown(Shutdown::Both);
            // The other relay may have gone; then nobody can be told.
            let _ = last_words(self.link, why);
        }
        outcome.map(|()| Passed {
            pages: self.queue.pages,
            forwarded_bytes: self.queue.forwarded,
        })
    }

    fn turns(&mut self) -> Result<(), Failure> {
        loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) if self.is_done() => return Ok(()),
                Ok(false) => self.wait()?,
                // The relay that is done first hangs up.
                Err(_) if self.is_said() => return Ok(()),
                Err(why) => return Err(why),
            }
        }
    }

    /// Does what can be done now; whether there was anything.
    fn turn(&mut self) -> Result<bool, Failure> {
        let mut goes_on = self.link.poll()?;
        goes_on |= self.take()?;
        goes_on |= self.write()?;
        goes_on |= self.send()?;
        goes_on |= self.read()?;
        if !goes_on && self.link.has_ended() {
            return Err(Failure::new("the other relay has gone"));
        }
        Ok(goes_on)
    }

    /// Whether nothing is left to send in either direction.
    fn is_said(&self) -> bool {
        let is_written = self.written == self.unwritten.len();
        self.qemu_ended && self.peer_ended && self.queue.is_empty() && is_written
    }

    fn is_done(&self) -> bool {
        self.is_said() && self.link.is_idle()
    }

    fn take(&mut self) -> Result<bool, Failure> {
        if self.written < self.unwritten.len() {
            return Ok(false);
        }
        let Some(bytes) = self.link.front() else {
            return Ok(false);
        };
        self.link.release()?;
        self.heard = Instant::now();
        match Message::read(&bytes) {
            Some(Message::Bytes(bytes)) => {
                self.unwritten = self.role.inward(bytes);
                self.written = 0;
            }
            Some(Message::End) => {
                self.role.ended()?;
                self.peer_ended = true;
                self.qemu.shutdown(Shutdown::Write);
            }
            Some(Message::Failed(why)) => return Err(Failure::new(why)),
            _ => {
                return Err(Failure::new(
                    "the other relay says what is not known; use the same release everywhere",
                ));
            }
        }
        Ok(true)
    }

    fn write(&mut self) -> Result<bool, Failure> {
        let rest = &self.unwritten[self.written..];
        if rest.is_empty() {
            return Ok(false);
        }
        let count = self.qemu.write(rest).map_err(|_| hung_up::<R>())?;
        self.written += count;
        Ok(count > 0)
    }

    fn send(&mut self) -> Result<bool, Failure> {
        let mut goes_on = false;
        loop {
            match self.queue.front() {
                Some(Item::Message(message)) if self.link.has_room() => {
                    self.link.send(message)?;
                    self.queue.remove(1);
                }
                Some(Item::Run(_)) => {
                    let runs = self.queue.runs(RUNS);
                    let writes: Result<Vec<_>, _> = runs.map(|run| self.role.place(run)).collect();
                    let count = self.link.write(&writes?)?;
                    if count == 0 {
                        return Ok(goes_on);
                    }
                    self.queue.remove(count);
                }
                Some(Item::Message(_)) | None => return Ok(goes_on),
            }
            goes_on = true;
        }
    }

    /// Whether QEMU is to be read when it has sent something.
    fn is_reading(&self) -> bool {
        !self.qemu_ended && self.queue.is_empty() && !self.role.is_waiting()
    }

    fn read(&mut self) -> Result<bool, Failure> {
        if !self.is_reading() {
            return Ok(false);
        }
        match self.qemu.read().map_err(|_| hung_up::<R>())? {
            Arrival::Nothing => return Ok(false),
            Arrival::Piece => {}
            Arrival::End => {
                self.qemu_ended = true;
                self.queue.push(Message::End);
                return Ok(true);
            }
        }
        let taken = self.role.outward(self.qemu.piece(), &mut self.queue)?;
        self.qemu.take(taken).map_err(|_| hung_up::<R>())?;
        Ok(true)
    }

    /// Waits until something can go on.
    fn wait(&mut self) -> Result<(), Failure> {
        self.link.arm()?;
        // Completions from before the arming raise no notification.
        if self.link.poll()? {
            return Ok(());
        }
        let limit = self.silence_left()?;
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, self.is_reading());
        wanted.set(PollFlags::OUT, self.written < self.unwritten.len());
        let [completions, events] = {
            let qemu = (!wanted.is_empty()).then(|| PollFd::new(&self.qemu, wanted));
            wait(self.link, qemu.as_slice(), limit)?
        };
        if completions {
            self.link.notified();
        }
        if events {
            self.link.event();
        }
        Ok(())
    }

    /// How long the other relay may still be silent: without limit if it has sent all. It does not count as silent
    /// while the QEMU here has not read what it sent.
    fn silence_left(&mut self) -> Result<Option<Duration>, Failure> {
        let Some(silence) = self.role.silence().filter(|_| !self.peer_ended) else {
            return Ok(None);
        };
        if self.written < self.unwritten.len() {
            self.heard = Instant::now();
        }
        let left = silence.saturating_sub(self.heard.elapsed());
        if left.is_zero() {
            return Err(silent());
        }
        Ok(Some(left))
    }
}

fn hung_up<R: Role>() -> Failure {
    Failure::new(format!("{} has hung up; see its log", R::QEMU))
}

/// Waits for the connection and for `also`; whether completions came, and whether events did.
pub(crate) fn wait(
    link: &Link,
    also: &[PollFd<'_>],
    limit: Option<Duration>,
) -> Result<[bool; 2], Failure> {
    let (completions, events) = (link.completions(), link.events());
    let mut all = vec![
        PollFd::new(&completions, PollFlags::IN),
        PollFd::new(&events, PollFlags::IN),
    ];
    all.extend(also.iter().cloned());
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(&mut all, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(Failure::new(format!("cannot wait: {error}"))),
    }
    Ok([0, 1].map(|index: usize| !all[index].revents().is_empty()))
}

/// Tells the other relay why this one ends.
pub(crate) fn last_words(link: &mut Link, why: &Failure) -> Result<(), Failure> {
    let deadline = Instant::now() + LAST_WORDS;
    let mut is_told = false;
    while !(is_told && link.is_idle()) {
        if !is_told && link.has_room() {
            link.send(&Message::Failed(why.to_string()))?;
            is_told = true;
        }
        link.arm()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        if !link.poll()? && wait(link, &[], Some(left))?[0] {
            link.notified();
        }
    }
    Ok(())
}
