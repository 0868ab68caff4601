//! Copies for clients that are not trusted to have their pages at hand.
//!
//! ```text
//!   data path ── job, buffer ──► the tenant's own thread ── pread, pwrite ──► client's memory
//!        └── waits PATIENCE ◄── buffer ──┘
//!              └─ too long: the thread is given up, and the tenant refused for PENALTY
//! ```
//!
//! A page may be backed by a file system in the client's hands (FUSE), and a read of it then takes as
//! long as the client likes; no call of the kernel gives up by itself. So such a read happens in a
//! thread of the tenant, and what it can cost the others is PATIENCE in every PENALTY. Descriptors of
//! files on such a file system are as bad: even `close` waits for an answer.

use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use rustix::process::Pid;

use crate::Fault;
use crate::closing::Closing;
use crate::stalled::{Marks, Stalled};

/// How long the data path waits for one copy: a page from a slow disk is there by then, and a thread
/// gets its turn on a busy machine.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a tenant that kept the data path waiting is refused: what it costs the others stays
/// at 1 %.
const PENALTY: Duration = Duration::from_secs(5);

/// Threads of one tenant that may hang at the same time; with more it is refused.
const ABANDONED_MAX: u32 = 4;

/// Bytes that were moved, in a buffer of the data path's.
pub(crate) struct Moved {
    pub(crate) buffer: Vec<u8>,
    pub(crate) count: Option<usize>,
}

type Job = Box<dyn FnOnce() -> Moved + Send>;

struct Worker {
    jobs: SyncSender<Job>,
    done: Receiver<Moved>,
}

#[derive(Default)]
struct State {
    worker: Option<Worker>,
    refused_until: Option<Instant>,
    buffer: Vec<u8>,
}

/// One user's clients together.
#[derive(Default)]
pub struct Tenant {
    state: Mutex<State>,
    abandoned: Arc<AtomicU32>,
    marks: Mutex<Marks>,
    closing: Closing,
}

/// What only the tenant's thread may drop. Where no thread can be had it is never dropped.
pub(crate) struct Kept<T>(ManuallyDrop<T>);

impl<T> Kept<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }

    /// For the tenant's thread.
    pub(crate) fn take(self) -> T {
        ManuallyDrop::into_inner(self.0)
    }
}

impl std::fmt::Debug for Tenant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tenant").finish_non_exhaustive()
    }
}

impl Tenant {
    /// With no thread until the first copy.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it kept somebody waiting lately: nothing is done for it.
    pub fn is_refused(&self) -> bool {
        self.is_serving(&mut self.state.lock())
    }

    /// Closes descriptors that a client sent, and its sockets, without waiting.
    pub fn close(&self, files: Vec<OwnedFd>) {
        if !files.is_empty() {
            self.closing.close(files);
        }
    }

    /// A buffer for a job: take it, and give it back in [`Moved`].
    pub(crate) fn buffer(&self) -> Vec<u8> {
        std::mem::take(&mut self.state.lock().buffer)
    }

    /// The mark of one of its processes.
    pub(crate) fn mark_of(&self, pid: Pid) -> Stalled {
        self.marks.lock().of(pid)
    }

    /// Has something found out. A fault: it took too long, now or lately.
    pub(crate) fn ask<T: Send + Sync + 'static>(
        &self,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let found = Arc::new(OnceLock::new());
        let told = Arc::clone(&found);
        self.run(move || {
            // Nobody else writes it.
            let _new = told.set(question());
            drop(told);
            Moved {
                buffer: Vec::new(),
                count: None,
            }
        })?;
        // The thread let go of its half before it told that the job was done.
        let answer = Arc::into_inner(found).and_then(OnceLock::into_inner);
        answer.ok_or(Fault)
    }

    /// Has the job done. A fault: it took too long, now or lately.
    pub(crate) fn run(&self, job: impl FnOnce() -> Moved + Send + 'static) -> Result<Moved, Fault> {
        let mut state = self.state.lock();
        if self.is_serving(&mut state) {
            return Err(Fault);
        }
        let worker = match state.worker.take() {
            Some(worker) => worker,
            None => self.hire().map_err(|_| Fault)?,
        };
        worker.jobs.send(Box::new(job)).map_err(|_| Fault)?;
        match worker.done.recv_timeout(PATIENCE) {
            Ok(moved) => {
                state.worker = Some(worker);
                Ok(moved)
            }
            Err(_) => {
                self.abandoned.fetch_add(1, AcqRel);
                state.refused_until = Some(Instant::now() + PENALTY);
                Err(Fault)
            }
        }
    }

    /// Keeps the buffer for the next job.
    pub(crate) fn put_back(&self, buffer: Vec<u8>) {
        self.state.lock().buffer = buffer;
    }

    fn is_serving(&self, state: &mut State) -> bool {
        let serving = state
            .refused_until
            .is_some_and(|until| Instant::now() < until);
        serving || self.abandoned.load(Acquire) >= ABANDONED_MAX
    }

    fn hire(&self) -> std::io::Result<Worker> {
        let (jobs, waiting) = sync_channel::<Job>(1);
        let (finished, done) = sync_channel(1);
        let abandoned = Arc::clone(&self.abandoned);
        thread::Builder::new()
            .name("copies".to_owned())
            .spawn(move || {
                while let Ok(job) = waiting.recv() {
                    let moved = job();
                    if finished.send(moved).is_err() {
                        // Given up on while it hung.
                        abandoned.fetch_sub(1, AcqRel);
                        return;
                    }
                }
            })?;
        Ok(Worker { jobs, done })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(count: usize) -> Moved {
        Moved {
            buffer: Vec::new(),
            count: Some(count),
        }
    }

    #[test]
    fn jobs_are_done_one_after_the_other() {
        let tenant = Tenant::new();
        for count in 0..100 {
            assert_eq!(tenant.run(move || moved(count)).unwrap().count, Some(count));
        }
    }

    #[test]
    fn one_that_hangs_costs_its_patience_once() {
        let tenant = Tenant::new();
        let (release, held) = sync_channel::<()>(0);
        let hangs = move || {
            let _ = held.recv();
            moved(0)
        };
        assert!(tenant.run(hangs).is_err());
        let again = Instant::now();
        for _ in 0..1000 {
            assert!(
                tenant.run(|| moved(0)).is_err(),
                "refused, and the job not even begun"
            );
        }
        assert!(again.elapsed() < PATIENCE * 100);
        assert_eq!(tenant.abandoned.load(Acquire), 1);
        drop(release);
        while tenant.abandoned.load(Acquire) > 0 {
            thread::yield_now();
        }
    }
}
