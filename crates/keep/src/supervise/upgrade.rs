//! The keeper's part in an upgrade. The diagram is in the module above.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::thread::set_name;

use super::line::{Attempt, Line, Outcome};
use super::question::Question;
use super::signals::Signals;
use super::succession::Succession;
use super::{Keeper, Options};
use crate::complaint::complain;
use crate::policy::{End, Policy};

/// How long a worker that has to give way may take; its records are whole at any moment.
const END_MAX: Duration = Duration::from_secs(2);
/// How long another program may take until it serves.
const TRIAL_MAX: Duration = Duration::from_secs(15);
/// Interval between checks of the clock during an upgrade; ends of processes arrive as signals.
const LOOK: Duration = Duration::from_millis(100);
/// The file of this program, whatever has become of its path.
const OURSELVES: &str = "/proc/self/exe";

/// The upgrade under way, and the result of the latest one.
pub(super) struct Upgrade {
    phase: Phase,
    /// Path of programs that may follow: the path that this one was started from.
    path: PathBuf,
    attempts: u32,
    /// The latest attempt that is over.
    pub(super) last: Option<Attempt>,
}

enum Phase {
    Resting,
    Asking(Question),
    /// The worker was told to give way to this program.
    Ending {
        program: File,
        until: Instant,
    },
    /// This program has not yet shown that it serves; `before` is the previous program.
    Trial {
        before: File,
        until: Instant,
    },
}

impl Upgrade {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            phase: Phase::Resting,
            path: std::env::current_exe()?,
            attempts: 0,
            last: None,
        })
    }

    /// Returns when the keeper has to check again even if no signal came.
    pub(super) fn next_look(&self) -> Option<Duration> {
        (!matches!(self.phase, Phase::Resting)).then_some(LOOK)
    }
}

impl<'a> Keeper<'a> {
    /// Makes a keeper that goes on for the previous program's keeper.
    pub(super) fn succeed(options: Options<'a>, succession: Succession) -> io::Result<Self> {
        let taken = succession.take_descriptors()?;
        let [keeper, worker] = taken.line;
        let line = Line::from_ends(keeper, worker)?;
        let phase = taken.before.map_or(Phase::Resting, |before| Phase::Trial {
            before,
            until: Instant::now() + TRIAL_MAX,
        });
        // After execve of a descriptor, the kernel has named the process after that descriptor.
        set_name(&CString::new(options.program)?)?;
        // Discards messages of earlier workers, which were not on trial.
        line.heard_ready();
        Ok(Self {
            options,
            area: taken.area,
            own: succession.own,
            line,
            signals: Signals::block()?,
            policy: Policy::new(options.crashes_max),
            upgrade: Upgrade {
                phase,
                path: succession.path,
                attempts: succession.attempts,
                last: succession.attempt,
            },
            workers: succession.workers,
            start: Instant::now(),
        })
    }

    /// Starts an upgrade to the program that is at the path now.
    pub(super) fn begin_upgrade(&mut self) {
        self.end_trial_if_ready();
        if !matches!(self.upgrade.phase, Phase::Resting) {
            let program = self.options.program;
            complain(format_args!(
                "{program}: SIGHUP is ignored, since an upgrade is under way"
            ));
            return;
        }
        self.upgrade.attempts += 1;
        match Question::ask(&self.upgrade.path, &self.options.successor) {
            Ok(question) => self.upgrade.phase = Phase::Asking(question),
            Err(error) => self.refuse(&format!("it cannot be started: {error}")),
        }
    }

    /// Advances an upgrade while the worker lives.
    pub(super) fn look_after_upgrade(&mut self, worker: Pid) -> io::Result<()> {
        let now = Instant::now();
        match &mut self.upgrade.phase {
            Phase::Resting => {}
            Phase::Asking(question) => match question.answered() {
                None => {}
                Some(Err(why)) => self.refuse(&why),
                Some(Ok(())) => {
                    let program = question.program.try_clone()?;
                    let until = now + END_MAX;
                    self.upgrade.phase = Phase::Ending { program, until };
                    kill_process(worker, Signal::HUP)?;
                }
            },
            Phase::Ending { until, .. } => {
                if now >= *until {
                    kill_process(worker, Signal::KILL)?;
                }
            }
            Phase::Trial { until, .. } => {
                let until = *until;
                if !self.end_trial_if_ready() && now >= until {
                    kill_process(worker, Signal::KILL)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the trial if the worker is ready. Returns whether no trial is under way any more.
    fn end_trial_if_ready(&mut self) -> bool {
        let Phase::Trial { before, .. } = &self.upgrade.phase else {
            return true;
        };
        if !self.line.heard_ready() {
            return false;
        }
        // From now on a worker's descriptor may get this number.
        self.own.remove(&before.as_raw_fd());
        self.upgrade.phase = Phase::Resting;
        true
    }

    /// Advances an upgrade after the worker has ended and before another one follows, maybe of another program. Returns
    /// if the next worker is one of this program.
    pub(super) fn upgrade_after(&mut self, end: End) {
        self.end_trial_if_ready();
        match std::mem::replace(&mut self.upgrade.phase, Phase::Resting) {
            Phase::Resting => {}
            // The question's descriptors must not be among those that the next worker finds.
            Phase::Asking(question) => {
                drop(question);
                self.refuse(&format!("the worker ended meanwhile ({end})"));
            }
            Phase::Ending { program, .. } => {
                let error = self.become_other(program);
                self.tell(Outcome::WentBack, &format!("it cannot be started: {error}"));
            }
            Phase::Trial { before, .. } => {
                self.own.remove(&before.as_raw_fd());
                let why = format!("its worker ended before it served ({end})");
                self.tell(Outcome::WentBack, &why);
                let error = self.succession(None).execute(before);
                // This program goes on, since there is no other.
                self.tell(
                    Outcome::WentBack,
                    &format!("{why}, and neither can the program before: {error}"),
                );
            }
        }
    }

    /// Returns only an error.
    fn become_other(&mut self, program: File) -> io::Error {
        let ourselves = match File::open(OURSELVES) {
            Ok(ourselves) => ourselves,
            Err(error) => return error,
        };
        let number = ourselves.as_raw_fd();
        self.own.insert(number);
        let mut succession = self.succession(Some(&ourselves));
        let done = Attempt::new(self.upgrade.attempts, Outcome::Done, "");
        succession.attempt = Some(done);
        let error = succession.execute(program);
        self.own.remove(&number);
        error
    }

    fn succession(&self, before: Option<&File>) -> Succession {
        Succession {
            process: getpid().as_raw_nonzero().get(),
            path: self.upgrade.path.clone(),
            area: self.area.as_raw_fd(),
            line: self.line.numbers(),
            own: self.own.clone(),
            workers: self.workers,
            attempts: self.upgrade.attempts,
            attempt: self.upgrade.last.clone(),
            before: before.map(AsRawFd::as_raw_fd),
        }
    }

    fn refuse(&mut self, why: &str) {
        self.upgrade.phase = Phase::Resting;
        self.tell(Outcome::Refused, why);
    }

    /// Reports an outcome to the worker, and on standard error.
    fn tell(&mut self, outcome: Outcome, why: &str) {
        let program = self.options.program;
        let what = match outcome {
            Outcome::Done => "another program serves",
            Outcome::Refused => "the upgrade is refused, and nothing was changed",
            Outcome::WentBack => "the program before serves, since the other one failed",
        };
        complain(format_args!("{program}: {what}: {why}"));
        let attempt = Attempt::new(self.upgrade.attempts, outcome, why);
        self.line.tell(&attempt);
        self.upgrade.last = Some(attempt);
    }
}
