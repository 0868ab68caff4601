//! The keeper: starts the worker, hands on signals, and starts it again if that is wanted.
//!
//! It has one thread and waits in one place. What the worker does, it does not know.

mod signals;
mod worker;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::inherited::{Inherited, open_numbers};
use crate::policy::{EXIT_AGAIN, End, Next, Policy};
use crate::store::{Area, Capacity};
use signals::Signals;

/// What a keeper has to be told.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The program's name, for sentences on standard error.
    pub program: &'a str,
    /// How many records outlive a worker.
    pub capacity: Capacity,
    /// So many crashes within a minute are the last.
    pub crashes_max: usize,
}

/// What a worker begins with.
#[derive(Debug)]
pub struct Life<'a> {
    /// How many workers there were before.
    pub number: u32,
    /// The memory of the records, for [`crate::Store::open`].
    pub area: BorrowedFd<'a>,
    /// How the worker before this one ended.
    pub previous_end: Option<End>,
    /// The descriptors that earlier workers left open.
    pub inherited: Inherited,
}

/// Runs workers until one ends for good, and gives the code to exit with. Each worker runs `run_worker`
/// in a process of its own, which exits with the code that comes back.
///
/// Descriptors that are open already belong to the keeper: no worker finds them among the inherited.
pub fn supervise(options: Options<'_>, mut run_worker: impl FnMut(Life<'_>) -> i32) -> i32 {
    let result = Keeper::new(options).and_then(|mut keeper| keeper.run(&mut run_worker));
    match result {
        Ok(Outcome::Code(code)) => code,
        Ok(Outcome::Crashes(ends)) => {
            let reasons: Vec<_> = ends.iter().map(End::to_string).collect();
            let count = ends.len();
            eprintln!(
                "{}: the worker crashed {count} times within a minute ({}), so it is not started again",
                options.program,
                reasons.join(", ")
            );
            1
        }
        Err(error) => {
            eprintln!("{}: the worker cannot be kept: {error}", options.program);
            1
        }
    }
}

/// Ends this worker at once, to be followed by another one. No destructor runs, and nothing is taken back.
pub fn give_way() -> ! {
    // SAFETY: ends the process; what other threads are doing ends with it, as in a crash.
    unsafe { libc::_exit(EXIT_AGAIN) }
}

enum Outcome {
    Code(i32),
    Crashes(Vec<End>),
}

struct Keeper {
    area: OwnedFd,
    /// What was open before the first worker, the area included.
    own: BTreeSet<RawFd>,
    signals: Signals,
    policy: Policy,
    start: Instant,
}

impl Keeper {
    fn new(options: Options<'_>) -> io::Result<Self> {
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("other threads run already"));
        }
        let area = Area::create(options.capacity)?;
        Ok(Self {
            own: open_numbers()?,
            area,
            signals: Signals::block()?,
            policy: Policy::new(options.crashes_max),
            start: Instant::now(),
        })
    }

    fn run(&mut self, run_worker: &mut impl FnMut(Life<'_>) -> i32) -> io::Result<Outcome> {
        let mut number = 0;
        let mut previous_end = None;
        loop {
            let worker = worker::start(|| {
                self.signals.restore()?;
                // SAFETY: this process has just begun with one thread, and what it owns is what the keeper
                // owned when `own` was written down; the keeper has opened nothing since.
                let inherited = unsafe { Inherited::take_stock(&self.own) }?;
                Ok(run_worker(Life {
                    number,
                    area: self.area.as_fd(),
                    previous_end,
                    inherited,
                }))
            })?;
            let end = self.wait(worker)?;
            match self.policy.after(end, self.start.elapsed()) {
                Next::Again => (),
                Next::Stop(code) => return Ok(Outcome::Code(code)),
                Next::GiveUp(ends) => return Ok(Outcome::Crashes(ends)),
            }
            number += 1;
            previous_end = Some(end);
        }
    }

    /// Hands on signals until the worker has ended.
    fn wait(&mut self, worker: Pid) -> io::Result<End> {
        loop {
            if let Some(end) = ended(worker)? {
                return Ok(end);
            }
            let received = self.signals.wait()?;
            if received.signal == Signal::CHILD {
                continue;
            }
            if received.signal != Signal::HUP {
                self.policy.stop();
            }
            if !received.went_to_the_worker_too {
                // The worker is not reaped yet, so the number is still its own.
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
