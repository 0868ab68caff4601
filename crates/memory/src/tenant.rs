//! Copies for clients that are not trusted to have their pages at hand.
//!
//! ```text
//!   data path ── job, buffer ──► the tenant's own thread ── pread, pwrite ──► client's memory
//!        └── waits PATIENCE ◄── buffer ──┘
//!              ├─ longer than the bytes need: the tenant owes the rest, see `waited`
//!              └─ too long: the thread is given up, and the tenant refused
//! ```
//!
//! A page may be backed by a file system in the client's hands (FUSE), and a read of it then takes as
//! long as the client likes; no call of the kernel gives up by itself. So such a read happens in a
//! thread of the tenant, and what it can cost the others is a hundredth of the time. Descriptors of
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
use crate::waited::{AllTenants, Debt, PATIENCE, excess};

/// How long a thread may take to get a core: that is the machine's fault, and nothing is owed for it.
const BEGINS_WITHIN: Duration = Duration::from_secs(1);

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
    done: Receiver<Done>,
    /// When it began with the job.
    begun: Arc<Mutex<Option<Instant>>>,
}

/// A job that is done, and how long it took.
struct Done {
    moved: Moved,
    took: Duration,
}

impl Worker {
    /// Waits for the job that it has. `None`: it took longer than `patience`.
    fn wait(&self, patience: Duration) -> Option<Done> {
        let mut left = patience;
        loop {
            if let Ok(done) = self.done.recv_timeout(left) {
                return Some(done);
            }
            let begun = *self.begun.lock();
            left = match begun {
                Some(begun) => patience.saturating_sub(begun.elapsed()),
                None if left == BEGINS_WITHIN => return None,
                None => BEGINS_WITHIN,
            };
            if left.is_zero() {
                return None;
            }
        }
    }
}

#[derive(Default)]
struct State {
    worker: Option<Worker>,
    debt: Debt,
    buffer: Vec<u8>,
}

/// One user's clients together.
#[derive(Default)]
pub struct Tenant {
    state: Mutex<State>,
    abandoned: Arc<AtomicU32>,
    marks: Mutex<Marks>,
    closing: Closing,
    all: Arc<AllTenants>,
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
    /// With no thread until the first copy; one of `all`.
    pub fn new(all: Arc<AllTenants>) -> Self {
        Self {
            all,
            ..Self::default()
        }
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
        *worker.begun.lock() = None;
        worker.jobs.send(Box::new(job)).map_err(|_| Fault)?;
        match worker.wait(self.all.patience(Instant::now())) {
            Some(Done { moved, took }) => {
                state.worker = Some(worker);
                let late = excess(took, moved.buffer.len());
                if !late.is_zero() {
                    self.owe(&mut state, late);
                }
                Ok(moved)
            }
            None => {
                self.abandoned.fetch_add(1, AcqRel);
                self.owe(&mut state, PATIENCE);
                Err(Fault)
            }
        }
    }

    fn owe(&self, state: &mut State, waited: Duration) {
        let now = Instant::now();
        state.debt.add(waited, now);
        self.all.add(waited, now);
    }

    /// Keeps the buffer for the next job.
    pub(crate) fn put_back(&self, buffer: Vec<u8>) {
        self.state.lock().buffer = buffer;
    }

    fn is_serving(&self, state: &mut State) -> bool {
        state.debt.is_refused(Instant::now()) || self.abandoned.load(Acquire) >= ABANDONED_MAX
    }

    fn hire(&self) -> std::io::Result<Worker> {
        let (jobs, waiting) = sync_channel::<Job>(1);
        let (finished, done) = sync_channel(1);
        let begun = Arc::<Mutex<Option<Instant>>>::default();
        let begins = Arc::clone(&begun);
        let abandoned = Arc::clone(&self.abandoned);
        thread::Builder::new()
            .name("copies".to_owned())
            .spawn(move || {
                while let Ok(job) = waiting.recv() {
                    let now = Instant::now();
                    *begins.lock() = Some(now);
                    let moved = job();
                    let took = now.elapsed();
                    if finished.send(Done { moved, took }).is_err() {
                        // Given up on while it hung.
                        abandoned.fetch_sub(1, AcqRel);
                        return;
                    }
                }
            })?;
        Ok(Worker { jobs, done, begun })
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
        let tenant = Tenant::default();
        for count in 0..100 {
            assert_eq!(tenant.run(move || moved(count)).unwrap().count, Some(count));
        }
    }

    /// Late by a little less than PATIENCE, again and again.
    #[test]
    fn who_is_late_each_time_is_refused() {
        let tenant = Tenant::default();
        let begun = Instant::now();
        let late = || {
            thread::sleep(PATIENCE * 9 / 10);
            moved(0)
        };
        let refused = (0..100).filter(|_| tenant.run(late).is_err()).count();
        assert!(refused >= 97, "{refused}");
        assert!(begun.elapsed() < PATIENCE * 20);
    }

    #[test]
    fn one_that_hangs_costs_its_patience_once() {
        let tenant = Tenant::default();
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
