//! How a keeper goes on with another program: the same process keeps its descriptors, and the environment says what
//! they are.
//!
//! ```text
//!   keeper, program 1 ── Succession { area, line, own, … } ── execve ──► keeper, program 2
//!        ▲                                                                  │ its worker ends before it serves
//!        └───────────────────────────── execve ─────────────────────────────┘
//! ```

use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::getpid;
use serde::{Deserialize, Serialize};

use super::line::{Attempt, Outcome};
use crate::complaint::complain;
use crate::inherited::open_numbers;

/// Name of the variable in which the next program finds it.
const VARIABLE: &str = "VRDMA_KEEPER_SUCCESSION";
/// Standard input, output and error stay open over any exec.
const STDIO_MAX: RawFd = 2;

/// State that the keeper's previous program hands over. New fields need a default, as long as programs without them can
/// be followed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Succession {
    /// Process that it is for: a process that has only inherited the environment is another one.
    pub(super) process: i32,
    /// The path that upgrades are taken from.
    pub(super) path: PathBuf,
    pub(super) area: RawFd,
    /// The keeper's end of the line, and the worker's.
    pub(super) line: [RawFd; 2],
    /// All descriptors that belong to the keeper.
    pub(super) own: BTreeSet<RawFd>,
    /// Number of workers so far.
    pub(super) workers: u32,
    /// Number of requests for another program so far.
    pub(super) attempts: u32,
    /// The latest attempt, if there was one.
    pub(super) attempt: Option<Attempt>,
    /// The previous program, if this one is on trial.
    pub(super) before: Option<RawFd>,
}

impl Succession {
    /// Returns what this process has taken over, if it is a keeper that goes on. Must be called before descriptors are
    /// opened.
    pub fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let succession: Self = serde_json::from_str(&text).ok()?;
        let is_ours = succession.process == getpid().as_raw_nonzero().get();
        (is_ours && succession.descriptors().iter().all(|fd| is_open(*fd))).then_some(succession)
    }

    /// Returns the descriptors that have a field of their own. They must all differ, or it is no succession of ours.
    fn descriptors(&self) -> Vec<RawFd> {
        let named = [self.area, self.line[0], self.line[1]];
        named.into_iter().chain(self.before).collect()
    }

    /// Goes back to the previous program, for a program that cannot even start a worker. Returns only if that fails or
    /// there is none.
    pub fn go_back(mut self, why: &str) {
        let Some(before) = self.before.take() else {
            return;
        };
        self.attempt = Some(Attempt::new(self.attempts, Outcome::WentBack, why));
        // SAFETY: it is open, and this process is about to become another program; nothing else uses it.
        let before = unsafe { OwnedFd::from_raw_fd(before) };
        let error = self.execute(File::from(before));
        complain(format_args!(
            "the program before cannot be started again: {error}"
        ));
    }

    /// Becomes `program`, which finds this succession in its environment. Returns only an error.
    pub(super) fn execute(&self, program: File) -> io::Error {
        match self.try_execute(&program) {
            Ok(error) | Err(error) => error,
        }
    }

    fn try_execute(&self, program: &File) -> io::Result<io::Error> {
        let text = serde_json::to_string(self).map_err(io::Error::other)?;
        let arguments = std::env::args_os().map(terminated);
        let arguments = arguments.collect::<io::Result<Vec<CString>>>()?;
        let others = std::env::vars_os().filter(|(name, _)| name != VARIABLE);
        let variables = others.chain([(VARIABLE.into(), text.into())]);
        let variables = variables.map(|(name, value)| {
            let mut variable: OsString = name;
            variable.push("=");
            variable.push(value);
            terminated(variable)
        });
        let variables = variables.collect::<io::Result<Vec<CString>>>()?;
        set_inheritance(true)?;
        let error = exec(program, &arguments, &variables);
        set_inheritance(false)?;
        Ok(error)
    }

    /// Takes the descriptors that the keeper has taken over, and keeps them from programs that this process may start.
    pub(super) fn take_descriptors(&self) -> io::Result<Taken> {
        let named: BTreeSet<RawFd> = self.descriptors().into_iter().collect();
        if named.len() != self.descriptors().len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set_inheritance(false)?;
        // SAFETY: each is open (`from_environment` checked), named once, and the keeper's own according to the
        // succession, so no worker's descriptor is claimed twice; nothing else in this program has taken it since.
        let take = |number| unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Taken {
            area: take(self.area),
            line: self.line.map(take),
            before: self.before.map(take).map(File::from),
        })
    }
}

/// Descriptors of a keeper that goes on.
pub(super) struct Taken {
    pub(super) area: OwnedFd,
    pub(super) line: [OwnedFd; 2],
    pub(super) before: Option<File>,
}

fn terminated(text: OsString) -> io::Result<CString> {
    CString::new(text.into_vec()).map_err(io::Error::other)
}

fn is_open(number: RawFd) -> bool {
    // SAFETY: the number is only queried, whatever it stands for, and not kept beyond the call.
    number >= 0 && fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_ok()
}

/// Sets whether all descriptors stay open in the next program. A descriptor that closes meanwhile does not matter.
fn set_inheritance(is_inherited: bool) -> io::Result<()> {
    let flags = if is_inherited {
        FdFlags::empty()
    } else {
        FdFlags::CLOEXEC
    };
    for number in open_numbers()? {
        if number > STDIO_MAX && is_open(number) {
            // SAFETY: it is open, and there is no other thread or process with this table that closes it: the worker
            // has ended.
            fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, flags)?;
        }
    }
    Ok(())
}

/// Returns only an error.
fn exec(program: &File, arguments: &[CString], variables: &[CString]) -> io::Error {
    let pointers = |texts: &[CString]| {
        let all = texts.iter().map(|text| text.as_ptr());
        all.chain([ptr::null()]).collect::<Vec<_>>()
    };
    let (arguments, variables) = (pointers(arguments), pointers(variables));
    // SAFETY: both arrays end with a null pointer, and their texts with a zero byte; they live until the call is over.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            arguments.as_ptr(),
            variables.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The succession of a released program is read.
    #[test]
    fn what_the_first_keeper_hands_over_is_read() {
        let text = include_str!("../../corpus/succession5.json");
        let succession: Succession = serde_json::from_str(text).unwrap();
        assert_eq!(succession.path, PathBuf::from("/usr/bin/vrdmad"));
        assert_eq!((succession.process, succession.area), (77, 3));
        assert_eq!((succession.line, succession.before), ([4, 5], Some(9)));
        assert_eq!(succession.own, BTreeSet::from([3, 4, 6]));
        assert_eq!((succession.workers, succession.attempts), (12, 2));
        let attempt = succession.attempt.as_ref().unwrap();
        assert_eq!(attempt.outcome, Outcome::WentBack);
        assert_eq!(attempt.sentence, "it ended");
        let again = serde_json::to_value(&succession).unwrap();
        assert_eq!(
            again,
            serde_json::from_str::<serde_json::Value>(text).unwrap()
        );
    }
}
