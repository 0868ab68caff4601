//! Frees values that take long to free, in a thread of its own: an engine with a hundred thousand objects, or guest
//! memory of many gigabytes, would hold up the messages of a shard for tens of milliseconds. Refused sockets are closed
//! in another thread, for as long as their sender likes: the sender's descriptors may be in them.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use vrdma_vfio_user::Closing;

/// Most values that may wait. Beyond that, memory is freed where its use ended, which bounds the memory that is held.
const WAITING_MAX: usize = 64;

type Waiting = SyncSender<Box<dyn Send>>;

/// Handle of the threads, which end with its last clone.
#[derive(Clone, Debug)]
pub struct Disposal {
    frees: Waiting,
    closes: Waiting,
}

impl Disposal {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system is out of threads.
    pub fn start() -> io::Result<Self> {
        Ok(Self {
            frees: start("disposal")?,
            closes: start("closing")?,
        })
    }

    /// Frees a value later.
    pub fn free(&self, what: impl Send + 'static) {
        // If the queue is full, the error returns the value, and it is freed here.
        let _ = self.frees.try_send(Box::new(what));
    }

    /// Returns the closer of descriptors that QEMU sent.
    pub fn closing(&self) -> Closing {
        let closer = self.clone();
        Closing::by(move |fd| closer.close(fd))
    }

    /// Closes something that a stranger may have made slow to close. If too many are waiting, it stays open: the limit
    /// on descriptors bounds that.
    pub fn close(&self, what: impl Send + 'static) {
        let kept = self.closes.try_send(Box::new(what));
        std::mem::forget(kept.err());
    }
}

fn start(name: &str) -> io::Result<Waiting> {
    let (sender, waiting) = sync_channel(WAITING_MAX);
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(move || waiting.into_iter().for_each(drop))?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// A value whose drop ends when the test says so.
    struct Slow(Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    #[test]
    fn who_frees_something_slow_does_not_wait() {
        let disposal = Disposal::start().unwrap();
        let (ends, waits) = channel();
        disposal.free(Slow(waits));
        let (closed, is_closed) = channel::<()>();
        disposal.close(closed);
        assert!(is_closed.recv().is_err(), "it is closed meanwhile");
        let (freed, is_freed) = channel::<()>();
        disposal.free(freed);
        assert!(is_freed.try_recv().is_err());
        drop(ends);
        assert!(is_freed.recv().is_err(), "its other end is dropped");
    }
}
