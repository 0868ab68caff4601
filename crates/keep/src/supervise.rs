//! The keeper: starts the worker, passes on signals, and starts the worker again if needed, or another program.
//!
//! ```text
//!   Resting ─ SIGHUP ─► Asking ─ accepts ─► Ending ─ worker ends ─► the other program: Trial ─ READY ─► Resting
//!      ▲                   │ refuses                                   │ ends, or is not ready in time
//!      └───────────────────┴───────────── the program before ◄─────────┘
//! ```
//! It has one thread and waits in one place. It does not know what the worker does.

mod line;
mod question;
mod signals;
mod succession;
mod upgrade;
mod worker;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::complaint::complain;
use crate::inherited::{Inherited, open_numbers};
use crate::policy::{EXIT_AGAIN, End, Next, Policy};
use crate::store::{Area, Capacity};
use line::Line;
pub use line::{Attempt, Outcome, WorkerLine};
use signals::Signals;
pub use succession::Succession;
use upgrade::Upgrade;

/// Options of a keeper.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Name of the program, for sentences on standard error.
    pub program: &'a str,
    /// Number of records that outlive a worker.
    pub capacity: Capacity,
    /// Number of crashes within a minute after which no worker is started.
    pub crashes_max: usize,
    /// How another program may follow this one.
    pub successor: Successor<'a>,
}

/// How the keeper asks the file that this program was started from whether it can go on; it may be another program by
/// now.
#[derive(Clone, Copy, Debug)]
pub struct Successor<'a> {
    /// Command line of this program, its name first; the other program gets the same.
    pub arguments: &'a [OsString],
    /// The argument that asks the other program.
    pub question: &'a str,
    /// The line that the other program prints if it can go on, before it exits with 0. If it cannot, the first line on
    /// its standard error says why.
    pub answer: &'a str,
}

/// State that a worker begins with.
#[derive(Debug)]
pub struct Life<'a> {
    /// Number of earlier workers.
    pub number: u32,
    /// The memory of the records, for [`crate::Store::open`].
    pub area: BorrowedFd<'a>,
    /// How the worker before this one ended.
    pub previous_end: Option<End>,
    /// The descriptors that earlier workers left open.
    pub inherited: Inherited,
    /// Line to the keeper.
    pub line: WorkerLine,
}

/// Runs workers until one ends for good, and returns the code to exit with. Each worker runs `run_worker` in a process
/// of its own, which exits with the code that `run_worker` returns.
///
/// Descriptors that are open already belong to the keeper: no worker finds them among the inherited ones. `succession`
/// is what the keeper's previous program has handed over.
pub fn supervise(
    options: Options<'_>,
    succession: Option<Succession>,
    mut run_worker: impl FnMut(Life<'_>) -> i32,
) -> i32 {
    let keeper = match succession {
        None => Keeper::new(options),
        Some(succession) => Keeper::succeed(options, succession),
    };
    match keeper.and_then(|mut keeper| keeper.run(&mut run_worker)) {
        Ok(Finish::Code(code)) => code,
        Ok(Finish::Crashes(ends)) => {
            let reasons: Vec<_> = ends.iter().map(End::to_string).collect();
            let count = ends.len();
            complain(format_args!(
                "{}: the worker crashed {count} times within a minute ({}), so it is not started again",
                options.program,
                reasons.join(", ")
            ));
            1
        }
        Err(error) => {
            complain(format_args!(
                "{}: the worker cannot be kept: {error}",
                options.program
            ));
            1
        }
    }
}

/// Ends this worker at once, to be followed by another one. No destructor runs, and nothing is undone.
pub fn give_way() -> ! {
    // SAFETY: ends the process; what other threads are doing ends with it, as in a crash.
    unsafe { libc::_exit(EXIT_AGAIN) }
}

enum Finish {
    Code(i32),
    Crashes(Vec<End>),
}

struct Keeper<'a> {
    options: Options<'a>,
    area: OwnedFd,
    /// Descriptors that were open before the first worker, or that the keeper has opened.
    own: BTreeSet<RawFd>,
    line: Line,
    signals: Signals,
    policy: Policy,
    upgrade: Upgrade,
    /// Number of workers so far.
    workers: u32,
    start: Instant,
}

impl<'a> Keeper<'a> {
    fn new(options: Options<'a>) -> io::Result<Self> {
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("other threads run already"));
        }
        let area = Area::create(options.capacity)?;
        let line = Line::new()?;
        Ok(Self {
            options,
            own: open_numbers()?,
            area,
            line,
            signals: Signals::block()?,
            policy: Policy::new(options.crashes_max),
            upgrade: Upgrade::new()?,
            workers: 0,
            start: Instant::now(),
        })
    }

    fn run(&mut self, run_worker: &mut impl FnMut(Life<'_>) -> i32) -> io::Result<Finish> {
        let mut previous_end = (self.workers > 0).then_some(End::Exited(EXIT_AGAIN));
        loop {
            // SAFETY: there is one thread and no worker; the keeper's own descriptors are in `own`, and it does not use
            // the ones that it gives away here.
            let inherited = unsafe { Inherited::take_stock(&self.own) }?;
            let worker = worker::start(|| {
                self.signals.restore()?;
                Ok(run_worker(Life {
                    number: self.workers,
                    area: self.area.as_fd(),
                    previous_end,
                    inherited,
                    line: self.line.for_worker(self.upgrade.last.clone())?,
                }))
            })?;
            let end = self.wait(worker)?;
            self.workers += 1;
            if !self.policy.is_stopping() {
                self.upgrade_after(end);
            }
            match self.policy.after(end, self.start.elapsed()) {
                Next::Again => (),
                Next::Stop(code) => return Ok(Finish::Code(code)),
                Next::GiveUp(ends) => return Ok(Finish::Crashes(ends)),
            }
            previous_end = Some(end);
        }
    }

    /// Passes on signals until the worker has ended.
    fn wait(&mut self, worker: Pid) -> io::Result<End> {
        loop {
            if let Some(end) = ended(worker)? {
                return Ok(end);
            }
            self.look_after_upgrade(worker)?;
            let Some(received) = self.signals.wait(self.upgrade.next_look())? else {
                continue;
            };
            match received.signal {
                Signal::CHILD => continue,
                Signal::HUP => {
                    self.begin_upgrade();
                    continue;
                }
                _ => self.policy.stop(),
            }
            if !received.went_to_the_worker_too {
                // The worker is not reaped yet, so its process number is still its own.
                kill_process(worker, received.signal)?;
            }
        }
    }
}

fn ended(worker: Pid) -> io::Result<Option<End>> {
    let status = waitpid(Some(worker), WaitOptions::NOHANG)?;
    Ok(status.and_then(|(_, status)| end(status)))
}

fn end(status: WaitStatus) -> Option<End> {
    let exited = status.exit_status().map(End::Exited);
    exited.or_else(|| status.terminating_signal().map(End::Killed))
}
