//! Frees what takes long to free, in a thread of its own: an engine with a hundred thousand objects, or
//! guest memory of many gigabytes, would hold up the messages of a shard for tens of milliseconds.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// What may wait. Beyond that it is freed where it ended, which bounds the memory that it holds.
const WAITING_MAX: usize = 64;

/// The way to the thread, which ends with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Disposal(SyncSender<Box<dyn Send>>);

impl Disposal {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system is out of threads.
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, waiting) = sync_channel(WAITING_MAX);
        thread::Builder::new()
            .name("disposal".to_owned())
            .spawn(move || waiting.into_iter().for_each(drop))?;
        Ok(Self(sender))
    }

    /// Frees something later.
    pub(crate) fn free(&self, what: impl Send + 'static) {
        // Who finds no room frees it here: the error has it.
        let _ = self.0.try_send(Box::new(what));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Ends when somebody says so.
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
        let (freed, is_freed) = channel::<()>();
        disposal.free(freed);
        assert!(is_freed.try_recv().is_err());
        drop(ends);
        assert!(is_freed.recv().is_err(), "its other end is dropped");
    }
}
