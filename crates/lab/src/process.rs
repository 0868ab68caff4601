//! Child processes that do not outlive their owner.
//!
//! A child leads a process group. Beside it runs a watcher, a few words of shell that read a pipe from the owner: when
//! the owner ends, in whatever way, the pipe ends and the watcher kills the child and its group. A child that is to be
//! kept has no watcher and is left alone when dropped.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Interval between two checks of something that cannot be waited for with a limit.
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// `$$` is this shell, which becomes the child by `exec` and leads the group; the watcher is in the group too. The pipe
/// is moved to descriptor 3 because a shell detaches background commands from its standard input.
const WATCHED: &str =
    "exec 3<&0; (read -r _ <&3; kill -s KILL -- -$$) >/dev/null 2>&1 & exec \"$@\" 3<&- </dev/null";

/// When a child ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lifetime {
    /// With its owner.
    #[default]
    Owned,
    /// When it is killed explicitly.
    Kept,
}

/// A child process and its group.
#[derive(Debug)]
pub struct Supervised {
    child: Child,
    lifetime: Lifetime,
}

impl Supervised {
    /// Starts a program with both of its output streams in a file, or nowhere.
    /// Only the program, its arguments and its environment are taken from `command`.
    ///
    /// # Errors
    /// When the file or the process cannot be made.
    pub fn spawn(command: &Command, log: Option<&Path>, lifetime: Lifetime) -> io::Result<Self> {
        let mut supervised = match lifetime {
            Lifetime::Owned => watched(command),
            Lifetime::Kept => unwatched(command),
        };
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => supervised.env(name, value),
                None => supervised.env_remove(name),
            };
        }
        let output = |log: Option<&File>| {
            log.map_or(Ok(Stdio::null()), |file| file.try_clone().map(Stdio::from))
        };
        let log = log
            .map(|path| File::options().create(true).append(true).open(path))
            .transpose()?;
        supervised
            .stdout(output(log.as_ref())?)
            .stderr(output(log.as_ref())?);
        Ok(Self {
            child: supervised.process_group(0).spawn()?,
            lifetime,
        })
    }

    /// The number of the process and of its group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end, at most for `limit`.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn wait_for_exit(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            match self.ended()? {
                None if Instant::now() < deadline => thread::sleep(POLL),
                ended => return Ok(ended),
            }
        }
    }

    /// Asks it to end within `grace`, and then kills it.
    pub fn stop(&mut self, grace: Duration) {
        signal_group(self.id(), Signal::TERM);
        if !matches!(self.wait_for_exit(grace), Ok(Some(_))) {
            self.kill();
        }
    }

    /// Ends it and its group at once.
    pub fn kill(&mut self) {
        signal_group(self.id(), Signal::KILL);
        // Waiting fails only if the child was already collected.
        let _ = self.child.wait();
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if self.lifetime == Lifetime::Owned {
            self.kill();
        }
    }
}

/// Gives a command another's arguments and environment behind its own.
pub(crate) fn copied(mut to: Command, from: &Command) -> Command {
    to.args(from.get_args());
    to.envs(
        from.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    to
}

/// Signals a whole group; one that is gone already needs no signal.
pub(crate) fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

fn watched(command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell
        .process_group(0)
        .args(["-c", WATCHED, "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    shell.stdin(Stdio::piped());
    shell
}

fn unwatched(command: &Command) -> Command {
    let mut plain = Command::new(command.get_program());
    plain.args(command.get_args()).stdin(Stdio::null());
    plain
}

#[cfg(test)]
mod tests;
