//! Copies for clients that are not trusted to have their pages present.
//!
//! ```text
//!   data path ── copy, buffer ──► the tenant's own thread ── pread, pwrite ──► client's memory
//!        └── waits a little ◄── buffer ──┘
//!              ├─ longer than the bytes need: the tenant owes the rest, see `waited`
//!              ├─ longer than it may wait: late; the caller asks again, and is told so until the copy is done
//!              └─ longer than GIVEN_UP: gone, and so is the thread
//! ```
//!
//! A page may be backed by a file system in the client's hands (FUSE), and a read of it then takes as long as the
//! client likes; no system call gives up by itself. So such a read happens in a thread of the tenant, and can cost the
//! others at most a hundredth of the time. Descriptors of files on such a file system are as bad: even `close` waits
//! for an answer. But a page may just as well come from a slow disk, or the thread may get no core: then the copy is
//! made when possible, and nothing has failed.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::atomic::{AtomicBool, AtomicU32};
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

/// How long a thread may take to get a core. Such a delay is the machine's fault, and nothing is owed for it.
const BEGINS_WITHIN: Duration = Duration::from_millis(50);

/// How long a copy may be late. A page comes from a busy disk within that time, and programs that poll for completions
/// wait for seconds anyway when a peer has died.
const GIVEN_UP: Duration = Duration::from_secs(3);

/// Threads of one tenant that may hang at the same time; once that many hang, the tenant is refused.
const ABANDONED_MAX: u32 = 4;

/// Bytes that were moved, in a buffer of the data path.
pub(crate) struct Moved {
    pub(crate) buffer: Vec<u8>,
    pub(crate) count: Option<usize>,
}

impl Moved {
    fn nothing() -> Self {
        Self {
            buffer: Vec::new(),
            count: None,
        }
    }
}

type Job = Box<dyn FnOnce() -> Moved + Send>;

struct Worker {
    jobs: SyncSender<Job>,
    done: Receiver<Done>,
    /// Time at which the worker began the job; none before.
    begun: Arc<Mutex<Option<Instant>>>,
}

/// A job that is done, and how long it took.
struct Done {
    moved: Moved,
    took: Duration,
}

impl Worker {
    /// Waits for the worker's job. `None`: it took longer than `patience`.
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

    fn has_begun(&self) -> bool {
        self.begun.lock().is_some()
    }
}

/// Names a copy: the memory, and the address in it.
pub(crate) type CopyId = (usize, u64);

/// A job that is either done or taken back.
#[derive(Clone, Default)]
struct Once(Arc<AtomicBool>);

impl Once {
    /// Does the job, unless it was taken back.
    fn run(&self, job: impl FnOnce() -> Moved) -> Moved {
        match self.0.swap(true, AcqRel) {
            false => job(),
            true => Moved::nothing(),
        }
    }

    /// Takes the job back. Returns whether it had not begun, and so never will.
    fn take_back(&self) -> bool {
        !self.0.swap(true, AcqRel)
    }
}

/// A job that is done when possible.
struct Late {
    worker: Worker,
    of: Option<CopyId>,
    since: Instant,
}

#[derive(Default)]
struct State {
    worker: Option<Worker>,
    late: Option<Late>,
    /// The last copy that was late for too long, if the caller was not told yet.
    gone: Option<CopyId>,
    debt: Debt,
    buffer: Vec<u8>,
}

/// All clients of one user.
#[derive(Default)]
pub struct Tenant {
    state: Mutex<State>,
    abandoned: Arc<AtomicU32>,
    marks: Mutex<Marks>,
    closing: Arc<Closing>,
    all: Arc<AllTenants>,
}

/// A descriptor that only threads of the tenant may close. If no job took it, the closing thread closes it.
pub(crate) struct Kept {
    fd: Option<OwnedFd>,
    closing: Arc<Closing>,
}

impl Kept {
    /// Takes the descriptor, in the tenant's thread.
    pub(crate) fn take(mut self) -> Option<OwnedFd> {
        self.fd.take()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let fd = self.fd.take();
        if fd.is_some() {
            self.closing.close(fd.into_iter().collect());
        }
    }
}

impl std::fmt::Debug for Tenant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tenant").finish_non_exhaustive()
    }
}

/// How long a job is waited for, and the copy that it makes, if it makes one.
struct Wait {
    of: Option<CopyId>,
    patience: Duration,
}

impl Tenant {
    /// Makes a tenant, one of `all`, without a thread until the first copy.
    pub fn new(all: Arc<AllTenants>) -> Self {
        Self {
            all,
            ..Self::default()
        }
    }

    /// Whether the tenant kept a caller waiting lately: nothing is done for it then.
    pub fn is_refused(&self) -> bool {
        self.refuses(&mut self.state.lock())
    }

    /// Closes descriptors that a client sent, and its sockets, without waiting.
    pub fn close(&self, files: Vec<OwnedFd>) {
        if !files.is_empty() {
            self.closing.close(files);
        }
    }

    /// Wraps a descriptor for a job.
    pub(crate) fn keep(&self, fd: OwnedFd) -> Kept {
        Kept {
            fd: Some(fd),
            closing: Arc::clone(&self.closing),
        }
    }

    /// Returns a buffer for a job. The job gives it back in [`Moved`].
    pub(crate) fn buffer(&self) -> Vec<u8> {
        std::mem::take(&mut self.state.lock().buffer)
    }

    /// Returns the mark of one of the tenant's processes.
    pub(crate) fn mark_of(&self, pid: Pid) -> Stalled {
        self.marks.lock().of(pid)
    }

    /// Has a question answered in the tenant's thread. A fault: the tenant took too long, now or lately, and is not
    /// asked again.
    pub(crate) fn ask<T: Send + Sync + 'static>(
        &self,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let found = Arc::new(OnceLock::new());
        let told = Arc::clone(&found);
        let mut state = self.state.lock();
        if self.refuses(&mut state) {
            return Err(Fault::Gone);
        }
        let question = move || {
            // Nothing else writes it.
            let _new = told.set(question());
            drop(told);
            Moved::nothing()
        };
        let wait = Wait {
            of: None,
            patience: PATIENCE,
        };
        self.run(&mut state, wait, question)?;
        // The thread dropped its half before it reported that the job was done.
        let answer = Arc::into_inner(found).and_then(OnceLock::into_inner);
        answer.ok_or(Fault::Gone)
    }

    /// Has bytes copied, which may be done twice: a copy that is late is done all the same.
    pub(crate) fn copy(
        &self,
        place: CopyId,
        copy: impl FnOnce() -> Moved + Send + 'static,
    ) -> Result<Moved, Fault> {
        let mut state = self.state.lock();
        if self.abandoned.load(Acquire) >= ABANDONED_MAX {
            return Err(Fault::Gone);
        }
        let patience = state.debt.patience(Instant::now()).ok_or(Fault::Late)?;
        let wait = Wait {
            of: Some(place),
            patience,
        };
        self.run(&mut state, wait, copy)
    }

    /// The same for bytes that must not be copied twice.
    ///
    /// # Errors
    /// `Late`: the copy has not begun and never will, so it may be asked for again. `Gone`: as for [`Self::copy`], or
    /// the copy has begun and is late, so it may be made at any moment.
    pub(crate) fn copy_once(
        &self,
        place: CopyId,
        copy: impl FnOnce() -> Moved + Send + 'static,
    ) -> Result<Moved, Fault> {
        let once = Once::default();
        let theirs = once.clone();
        match self.copy(place, move || theirs.run(copy)) {
            Err(Fault::Late) if !once.take_back() => Err(Fault::Gone),
            told => told,
        }
    }

    /// Whether a copy of that memory is late, and may be made at any moment.
    pub(crate) fn is_late(&self, memory: usize) -> bool {
        let mut state = self.state.lock();
        let is_late = self.end_late(&mut state).is_err();
        let of = state.late.as_ref().and_then(|late| late.of);
        is_late && of.is_some_and(|(of, _)| of == memory)
    }

    /// Has the worker do the job.
    fn run(
        &self,
        state: &mut State,
        Wait { of, patience }: Wait,
        job: impl FnOnce() -> Moved + Send + 'static,
    ) -> Result<Moved, Fault> {
        self.end_late(state)?;
        if of.is_some() && state.gone.take_if(|gone| Some(*gone) == of).is_some() {
            return Err(Fault::Gone);
        }
        let worker = match state.worker.take() {
            Some(worker) => worker,
            None => self.hire().map_err(|_| Fault::Gone)?,
        };
        *worker.begun.lock() = None;
        let since = Instant::now();
        worker.jobs.send(Box::new(job)).map_err(|_| Fault::Gone)?;
        let patience = patience.min(self.all.patience(since));
        let Some(Done { moved, took }) = worker.wait(patience) else {
            if worker.has_begun() {
                self.owe(state, patience);
            }
            state.late = Some(Late { worker, of, since });
            return Err(Fault::Late);
        };
        state.worker = Some(worker);
        let late = excess(took, moved.buffer.len());
        if !late.is_zero() {
            self.owe(state, late);
        }
        Ok(moved)
    }

    /// Checks whether a late job is done, without waiting for it.
    fn end_late(&self, state: &mut State) -> Result<(), Fault> {
        let Some(late) = state.late.take() else {
            return Ok(());
        };
        if let Ok(done) = late.worker.done.try_recv() {
            // The caller asks for the copy again, and its pages are present now.
            state.buffer = done.moved.buffer;
            state.worker = Some(late.worker);
        } else if late.since.elapsed() < GIVEN_UP {
            state.late = Some(late);
            return Err(Fault::Late);
        } else {
            self.abandoned.fetch_add(1, AcqRel);
            state.gone = late.of;
        }
        Ok(())
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

    /// Whether it owes others time, or has left too many threads hanging.
    fn refuses(&self, state: &mut State) -> bool {
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
                        // The thread was given up while it hung.
                        abandoned.fetch_sub(1, AcqRel);
                        return;
                    }
                }
            })?;
        Ok(Worker { jobs, done, begun })
    }
}

#[cfg(test)]
mod tests;
