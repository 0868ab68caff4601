//! Commands to a thread that sleeps in `epoll` or `ppoll`: a bounded queue and an eventfd beside it.
//!
//! ```text
//!   control plane ── Outbox::send ──► queue ──► Inbox::take ── data path thread
//!                          └────────► eventfd ─────► its poll set
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::watch;

/// Most commands that may wait. Changes are made one at a time, so only concurrent readers of counters add up; beyond
/// the limit they are told that the thread is busy.
const WAITING_MAX: usize = 64;

/// The same for commands that must not get lost. A thread that stands still gets a few of them for each change that is
/// tried meanwhile.
const LAST_WAITING_MAX: usize = 1024;

/// Why a command was not delivered: a sentence.
pub type Undelivered = &'static str;

/// Turns that a thread has made. The counter has a cache line of its own, so reading it costs the thread nothing.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Heart(AtomicU64);

/// State that both ends share.
#[derive(Debug, Default)]
struct Between {
    heart: Heart,
    waiting: AtomicUsize,
}

/// The sending end.
#[derive(Debug)]
pub struct Outbox<C> {
    queue: Sender<C>,
    wake: Waker,
    pulse: Pulse,
}

impl<C> Clone for Outbox<C> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            wake: self.wake.clone(),
            pulse: self.pulse.clone(),
        }
    }
}

/// A view of the turns that a thread has made, and of whether it has ended.
#[derive(Clone, Debug)]
pub(super) struct Pulse {
    between: Arc<Between>,
    end: watch::Receiver<()>,
}

impl Pulse {
    /// Returns the number of turns so far.
    pub(super) fn beats(&self) -> u64 {
        self.between.heart.0.load(Ordering::Relaxed)
    }

    /// Waits for the thread's end, at which the inbox is dropped.
    pub(super) async fn ended(&self) {
        // Nothing is ever sent, so this ends with the sender.
        let _ = self.end.clone().changed().await;
    }
}

/// Wakes the thread that owns an inbox, without a command.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Wakes the thread. A full counter, the only failure, means that a wake-up is pending already.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// The receiving end, owned by the thread.
#[derive(Debug)]
pub struct Inbox<C> {
    queue: Receiver<C>,
    wake: Arc<OwnedFd>,
    between: Arc<Between>,
    /// Tells the other end when the inbox is dropped.
    _end: watch::Sender<()>,
}

/// Makes a pair of ends.
pub fn mailbox<C>() -> io::Result<(Outbox<C>, Inbox<C>)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
    let (sender, receiver) = channel();
    let between = Arc::new(Between::default());
    let (end, ended) = watch::channel(());
    let outbox = Outbox {
        queue: sender,
        wake: Waker(Arc::clone(&wake)),
        pulse: Pulse {
            between: Arc::clone(&between),
            end: ended,
        },
    };
    Ok((
        outbox,
        Inbox {
            queue: receiver,
            wake,
            between,
            _end: end,
        },
    ))
}

impl<C> Outbox<C> {
    /// Queues a command and wakes the thread.
    pub fn send(&self, command: C) -> Result<(), Undelivered> {
        self.send_below(WAITING_MAX, command)
    }

    /// Queues a command that must not get lost, even beyond the limit for others.
    pub fn send_last(&self, command: C) -> Result<(), Undelivered> {
        self.send_below(LAST_WAITING_MAX, command)
    }

    fn send_below(&self, bound: usize, command: C) -> Result<(), Undelivered> {
        let waiting = &self.pulse.between.waiting;
        if waiting.fetch_add(1, Ordering::Relaxed) >= bound {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return Err("the daemon is busy; try again");
        }
        let sent = self.queue.send(command);
        sent.map_err(|_| "a data path thread of the daemon has stopped; restart the daemon")?;
        self.wake.wake();
        Ok(())
    }

    pub(super) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    pub(super) fn waker(&self) -> Waker {
        self.wake.clone()
    }
}

impl<C> Inbox<C> {
    /// Counts a turn of the thread.
    pub fn beat(&self) {
        // Only this thread writes.
        let heart = &self.between.heart.0;
        let beats = heart.load(Ordering::Relaxed);
        heart.store(beats.wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns the next command, if one waits. Call it until `None` after a wake-up.
    pub fn take(&self) -> Option<C> {
        self.taken(self.queue.try_recv().ok())
    }

    fn taken(&self, command: Option<C>) -> Option<C> {
        if command.is_some() {
            self.between.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        command
    }

    /// Sleeps until a command comes; `None` when every [`Outbox`] is gone.
    pub fn wait(&self) -> Option<C> {
        self.taken(self.queue.recv().ok())
    }

    /// Returns the waker of the thread.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wake))
    }

    /// Clears the wake-up. Call before [`Inbox::take`]: a command that arrives in between wakes again.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }
}

impl<C> AsFd for Inbox<C> {
    /// Readable while commands wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
