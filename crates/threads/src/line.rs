//! The control plane's line to one data path thread: commands with answers, and whether the thread responds.
//!
//! A thread beats at every turn ([`Inbox::beat`]). A sleeping thread does not, and need not: to check it, others wake
//! it, with or without a command, and expect a beat. A thread that made no turn since it was woken is *silent*; a
//! request to it fails at once instead of waiting.
//!
//! [`Inbox::beat`]: super::Inbox::beat

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::{Instant as Deadline, timeout_at};

use super::mailbox::Pulse;
use super::{Inbox, Outbox, Reply, Waker, mailbox};

/// How long a thread may make no turn before a request to it gives up. Requests that come meanwhile give up when the
/// first one does, so that each is answered within a second.
const TURN_MAX: Duration = Duration::from_millis(500);

/// The same for a thread that makes turns, but is slow for another reason.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Why a thread did not do what was requested: a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotDone {
    /// The thread does not answer.
    Silent(String),
    /// The thread refuses, or cannot be asked.
    Refused(String),
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Silent(sentence) | Self::Refused(sentence)) = self;
        f.write_str(sentence)
    }
}

impl std::error::Error for NotDone {}

impl From<String> for NotDone {
    fn from(sentence: String) -> Self {
        Self::Refused(sentence)
    }
}

/// Vital signs of one thread.
#[derive(Debug)]
pub struct Vital {
    name: String,
    pulse: Pulse,
    waker: Waker,
    silence: Mutex<Option<Silence>>,
}

#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Instant,
    beats: u64,
}

impl Vital {
    /// Its name for log lines and answers, such as "shard 1".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns for how long the thread has made no turn, if that was noticed.
    pub fn silence(&self) -> Option<Duration> {
        let mut noted = self.noted();
        *noted = noted.filter(|silence| silence.beats == self.beats());
        noted.map(|silence| silence.since.elapsed())
    }

    /// Returns the number of turns so far.
    pub fn beats(&self) -> u64 {
        self.pulse.beats()
    }

    /// Waits until the thread ends.
    pub async fn ended(&self) {
        self.pulse.ended().await;
    }

    /// Has the thread make a turn.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Notes that the thread has made no turn since it was woken at `since`, after this many beats. The longest silence
    /// counts.
    pub fn note_silence(&self, since: Instant, beats: u64) {
        if beats == self.beats() && self.silence().is_none() {
            *self.noted() = Some(Silence { since, beats });
        }
    }

    // Sound after a panic: a silence is noted or not.
    fn noted(&self) -> MutexGuard<'_, Option<Silence>> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusal(&self, silence: Duration) -> NotDone {
        NotDone::Silent(format!(
            "{} of the daemon has not answered for {:.1} s; see its log, and restart it if it stays so",
            self.name,
            silence.as_secs_f32()
        ))
    }
}

/// A line to a thread; see the module.
#[derive(Debug)]
pub struct Line<C> {
    outbox: Outbox<C>,
    vital: Arc<Vital>,
}

impl<C> Clone for Line<C> {
    fn clone(&self) -> Self {
        Self {
            outbox: self.outbox.clone(),
            vital: Arc::clone(&self.vital),
        }
    }
}

/// A request that was sent to a thread and has no answer yet.
#[derive(Debug)]
pub struct Asked<T> {
    answer: oneshot::Receiver<T>,
    vital: Arc<Vital>,
    at: Instant,
    beats: u64,
}

impl<C> Line<C> {
    /// Makes a line to a thread of that name.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new(name: String) -> std::io::Result<(Self, Inbox<C>)> {
        let (outbox, inbox) = mailbox()?;
        let vital = Vital {
            name,
            pulse: outbox.pulse(),
            waker: outbox.waker(),
            silence: Mutex::default(),
        };
        let vital = Arc::new(vital);
        Ok((Self { outbox, vital }, inbox))
    }

    /// Returns the thread's vital signs.
    pub fn vital(&self) -> &Arc<Vital> {
        &self.vital
    }

    /// Sends a command and waits for its answer. An error leaves nothing behind, even if the thread takes the
    /// command later: [withdrawn](is_withdrawn) ones are not carried out.
    ///
    /// # Errors
    /// The thread is silent, too busy, or gone.
    pub async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> C) -> Result<T, NotDone> {
        self.begin(command)?.answer().await
    }

    /// Sends a command.
    ///
    /// # Errors
    /// As for [`Self::ask`]; nothing was sent.
    pub fn begin<T>(&self, command: impl FnOnce(Reply<T>) -> C) -> Result<Asked<T>, NotDone> {
        if let Some(silence) = self.vital.silence() {
            return Err(self.vital.refusal(silence));
        }
        self.send(command, Outbox::send)
    }

    /// Sends a command that is carried out even if nobody waits for its answer.
    ///
    /// # Errors
    /// The thread is gone, or has been silent for so long that no more commands are sent to it.
    pub fn begin_last<T>(&self, command: impl FnOnce(Reply<T>) -> C) -> Result<Asked<T>, NotDone> {
        self.send(command, Outbox::send_last)
    }

    fn send<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> C,
        send: impl FnOnce(&Outbox<C>, C) -> Result<(), &'static str>,
    ) -> Result<Asked<T>, NotDone> {
        let (reply, answer) = oneshot::channel();
        let asked = Asked {
            answer,
            vital: Arc::clone(&self.vital),
            at: Instant::now(),
            beats: self.vital.beats(),
        };
        let sent = send(&self.outbox, command(reply));
        sent.map_err(|sentence| NotDone::Refused(sentence.to_owned()))?;
        Ok(asked)
    }

    /// Sends a command that has no answer. Does nothing if the thread is gone.
    pub fn tell_last(&self, command: C) {
        let _ = self.outbox.send_last(command);
    }
}

impl<T> Asked<T> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The thread is silent, or gone.
    pub async fn answer(mut self) -> Result<T, NotDone> {
        if let Some(silence) = self.vital.silence() {
            return Err(self.vital.refusal(silence));
        }
        for patience in [TURN_MAX, ANSWER_MAX] {
            let until = Deadline::from_std(self.at + patience);
            match timeout_at(until, &mut self.answer).await {
                Ok(answer) => return answer.map_err(|_| dropped()),
                Err(_) => self.vital.note_silence(self.at, self.beats),
            }
            if let Some(silence) = self.vital.silence() {
                return Err(self.vital.refusal(silence));
            }
        }
        Err(self.vital.refusal(self.at.elapsed()))
    }
}

fn dropped() -> NotDone {
    NotDone::Refused(
        "a data path thread of the daemon dropped the request; see the daemon's log".to_owned(),
    )
}

/// Whether the asker has given up. With this, the thread skips requests that it has not begun.
pub fn is_withdrawn<T>(reply: &Reply<T>) -> bool {
    reply.is_closed()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Question = Reply<u32>;

    fn line() -> (Line<Question>, Inbox<Question>) {
        Line::new("shard 7".to_owned()).unwrap()
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let paused = runtime.enable_time().start_paused(true).build();
        paused.unwrap().block_on(future)
    }

    #[test]
    fn a_dropped_reply_is_an_error_not_a_hang() {
        let (line, inbox) = line();
        let asked = line.begin(|reply| reply).unwrap();
        drop(inbox.take());
        let error = block_on(asked.answer()).unwrap_err();
        assert!(error.to_string().contains("dropped the request"));
    }

    #[test]
    fn a_thread_that_stands_still_is_asked_once_and_heard_again_when_it_goes_on() {
        let (line, inbox) = line();
        let silent = |asked| {
            let Err(NotDone::Silent(sentence)) = asked else {
                panic!("{asked:?}");
            };
            assert!(sentence.starts_with("shard 7 of the daemon has not answered for "));
        };
        silent(block_on(line.ask(|reply| reply)));
        assert!(line.vital().silence().is_some());
        silent(block_on(line.ask(|reply| reply)));
        assert!(is_withdrawn(&inbox.take().unwrap()));
        assert!(inbox.take().is_none(), "the second was never sent");
        inbox.beat();
        assert_eq!(line.vital().silence(), None);
        let asked = line.begin(|reply| reply).unwrap();
        inbox.take().unwrap().send(3).unwrap();
        assert_eq!(block_on(asked.answer()), Ok(3));
    }

    #[test]
    fn what_must_not_get_lost_arrives_when_a_silent_thread_goes_on() {
        let (line, inbox) = line();
        block_on(line.ask(|reply| reply)).unwrap_err();
        let asked = line.begin_last(|reply| reply).unwrap();
        block_on(asked.answer()).unwrap_err();
        assert_eq!(std::iter::from_fn(|| inbox.take()).count(), 2);
    }

    #[test]
    fn a_thread_that_goes_on_may_take_its_time() {
        let (line, inbox) = line();
        let asked = line.begin(|reply| reply).unwrap();
        inbox.beat();
        let reply = inbox.take().unwrap();
        let late = async move {
            tokio::time::sleep(2 * TURN_MAX).await;
            reply.send(5).unwrap();
        };
        let answer = block_on(async { tokio::join!(asked.answer(), late).0 });
        assert_eq!(answer, Ok(5));
    }

    #[test]
    fn the_longest_silence_counts() {
        let (line, _inbox) = line();
        let (vital, now) = (line.vital(), Instant::now());
        let long = now - Duration::from_secs(60);
        vital.note_silence(long, 0);
        vital.note_silence(now, 0);
        assert!(vital.silence().unwrap() >= Duration::from_secs(60));
        vital.note_silence(long, 1);
        assert!(vital.silence().is_some(), "it never beat once");
    }
}
