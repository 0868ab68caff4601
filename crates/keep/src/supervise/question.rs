//! Asks a program whether it can go on for this one: the program is started separately, and nothing of ours depends on
//! it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::Successor;

/// How long the answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Most bytes that are read of each of its outputs.
const SAID_MAX: u64 = 2048;

/// A program that is being asked.
#[derive(Debug)]
pub(super) struct Question {
    child: Child,
    /// The keeper's next program, if it accepts.
    pub(super) program: File,
    answer: String,
    until: Instant,
}

impl Question {
    /// Starts the file that is at `path` now.
    pub(super) fn ask(path: &Path, successor: &Successor<'_>) -> io::Result<Self> {
        // The file that answers is the one that goes on, whatever its path names by then.
        let program = File::open(path)?;
        let itself = format!("/proc/self/fd/{}", program.as_raw_fd());
        let [_, arguments @ ..] = successor.arguments else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let child = Command::new(itself)
            .args(arguments)
            .arg(successor.question)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self {
            child,
            program,
            answer: successor.answer.to_owned(),
            until: Instant::now() + ANSWER_MAX,
        })
    }

    /// Returns the answer: yes, or a sentence why not; `None` while there is none.
    pub(super) fn answered(&mut self) -> Option<Result<(), String>> {
        match self.child.try_wait() {
            Ok(None) if Instant::now() < self.until => None,
            Ok(None) => Some(Err("it did not say in time whether it can go on".to_owned())),
            Err(error) => Some(Err(format!("it cannot be waited for: {error}"))),
            Ok(Some(status)) => {
                let said = read(self.child.stdout.take());
                if status.success() && said.lines().any(|line| line == self.answer) {
                    return Some(Ok(()));
                }
                let complaint = read(self.child.stderr.take());
                Some(Err(match complaint.lines().next() {
                    Some(line) => line.to_owned(),
                    None => format!("it does not know how to go on for this one ({status})"),
                }))
            }
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        // Both fail when the child has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads what a child that has ended has written. A child of that child may hold the pipe open, so this does not wait.
fn read(pipe: Option<impl Read + AsFd>) -> String {
    let mut said = Vec::new();
    if let Some(pipe) = pipe {
        let flags = fcntl_getfl(&pipe).map(|flags| flags | OFlags::NONBLOCK);
        if flags.is_ok_and(|flags| fcntl_setfl(&pipe, flags).is_ok()) {
            // If the read fails, what was read before is all there is.
            let _ = pipe.take(SAID_MAX).read_to_end(&mut said);
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}
