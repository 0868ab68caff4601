//! Commands to a thread that sleeps in `epoll` or `ppoll`: a bounded queue and an eventfd beside it.
//!
//! ```text
//!   control plane ── Outbox::send ──► queue ──► Inbox::take ── data path thread
//!                          └────────► eventfd ─────► its poll set
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rustix::event::{EventfdFlags, eventfd};

/// Commands that may wait. Changes are made one at a time, so only concurrent readers of counters
/// add up; past the bound they are told that the thread is busy.
const WAITING_MAX: usize = 64;

/// Why a command did not arrive: a sentence.
pub type Undelivered = &'static str;

/// The sending end.
#[derive(Debug)]
pub struct Outbox<C> {
    queue: SyncSender<C>,
    wake: Waker,
}

impl<C> Clone for Outbox<C> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            wake: self.wake.clone(),
        }
    }
}

/// Wakes the thread that owns an inbox, without a command.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A full counter, the only failure, means that a wake-up is pending already.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// The receiving end, owned by the thread.
#[derive(Debug)]
pub struct Inbox<C> {
    queue: Receiver<C>,
    wake: Arc<OwnedFd>,
}

/// A fresh pair.
pub fn mailbox<C>() -> io::Result<(Outbox<C>, Inbox<C>)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let outbox = Outbox {
        queue: sender,
        wake: Waker(Arc::clone(&wake)),
    };
    Ok((
        outbox,
        Inbox {
            queue: receiver,
            wake,
        },
    ))
}

impl<C> Outbox<C> {
    /// Queues a command and wakes the thread.
    pub fn send(&self, command: C) -> Result<(), Undelivered> {
        self.queue.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => "the daemon is busy; try again",
            TrySendError::Disconnected(_) => {
                "a data path thread of the daemon has stopped; restart the daemon"
            }
        })?;
        self.wake.wake();
        Ok(())
    }

    /// Queues a command that must not get lost, waiting for room; nothing if the thread has ended.
    pub fn send_last(&self, command: C) {
        let _ = self.queue.send(command);
        self.wake.wake();
    }
}

impl<C> Inbox<C> {
    /// The next command, if one waits. Call until `None` after a wake-up.
    pub fn take(&self) -> Option<C> {
        self.queue.try_recv().ok()
    }

    /// Sleeps until a command comes; `None` when every [`Outbox`] is gone.
    #[cfg(test)]
    pub(crate) fn wait(&self) -> Option<C> {
        self.queue.recv().ok()
    }

    /// What wakes the thread.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wake))
    }

    /// Clears the wake-up. Call before [`Inbox::take`]: a command that arrives in between wakes again.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }
}

impl<C> AsFd for Inbox<C> {
    /// Readable when commands wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
