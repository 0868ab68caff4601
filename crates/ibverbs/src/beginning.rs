//! The beginning of a connection to the daemon.
//!
//! ```text
//!   connect ──► begin ──► done
//!     ▲           ├── the worker ended first ──► at once, a few times
//!     └───────────┴── it had no time to look at this process's memory ──► after a pause, for some seconds
//! ```

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use vrdma_provider::client::Connection;
use vrdma_provider::socket::{SOCKET_VARIABLE, path};

use crate::errno::{Errno, Result};

/// Workers of the daemon that may end, one after the other, before a connection is begun.
const BEGINNINGS: u32 = 8;

/// Pause between two tries when the daemon had no time.
const PAUSE: Duration = Duration::from_millis(50);

/// Most such tries: longer than the five seconds for which a user is refused whose programs kept the daemon waiting.
const REFUSALS: u32 = 120;

/// Returns the path of the daemon's socket.
pub(crate) fn socket() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = variable(SOCKET_VARIABLE);
    let runtime = variable("XDG_RUNTIME_DIR");
    path(
        named.as_deref().map(Path::new),
        runtime.as_deref().map(Path::new),
    )
}

/// Begins on a fresh connection. A worker that ends before it has answered takes those connections along that were not
/// begun, and the next worker has the same socket: so the connection is tried again, and fails at once if there is no
/// worker. A busy machine, or another program of the user, may keep the daemon from looking at this process in time:
/// that is no reason to fail either.
pub(crate) fn begin<R>(begin: impl Fn(Connection) -> Result<R>) -> Result<R> {
    let attempt = || begin(Connection::open(&socket())?);
    insist(attempt, || thread::sleep(PAUSE))
}

fn insist<R>(attempt: impl Fn() -> Result<R>, pause: impl Fn()) -> Result<R> {
    let (mut beginnings, mut refusals) = (1, 0);
    loop {
        match attempt() {
            Err(Errno(libc::EIO)) if beginnings < BEGINNINGS => beginnings += 1,
            Err(Errno(libc::EAGAIN)) if refusals < REFUSALS => {
                refusals += 1;
                pause();
            }
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns the outcome, the tries and the pauses, if the first `goes_away_after` tries end with `error`.
    fn tried(error: i32, goes_away_after: u32) -> (Result<()>, u32, u32) {
        let (tries, pauses) = (Cell::new(0), Cell::new(0));
        let attempt = || {
            tries.set(tries.get() + 1);
            match tries.get() > goes_away_after {
                true => Ok(()),
                false => Err(Errno(error)),
            }
        };
        let told = insist(attempt, || pauses.set(pauses.get() + 1));
        (told, tries.get(), pauses.get())
    }

    #[test]
    fn a_daemon_without_time_is_asked_again_after_a_pause() {
        assert_eq!(tried(libc::EAGAIN, 3), (Ok(()), 4, 3));
        let refused = Err(Errno(libc::EAGAIN));
        assert_eq!(tried(libc::EAGAIN, u32::MAX), (refused, 121, 120));
        assert!(PAUSE * REFUSALS > Duration::from_secs(5));
    }

    #[test]
    fn workers_that_end_follow_each_other_at_once() {
        assert_eq!(tried(libc::EIO, 7), (Ok(()), 8, 0));
        assert_eq!(tried(libc::EIO, u32::MAX), (Err(Errno(libc::EIO)), 8, 0));
    }

    #[test]
    fn any_other_answer_is_the_answer() {
        assert_eq!(tried(libc::EACCES, 1), (Err(Errno(libc::EACCES)), 1, 0));
        assert_eq!(tried(libc::EACCES, 0), (Ok(()), 1, 0));
    }
}
