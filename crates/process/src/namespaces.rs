//! The user and PID namespaces of a process.
//!
//! A program in a container may have the uid of an outside user that does not trust it. So a process that is to be
//! trusted because of its user has to live where the uid means the same.
//!
//! ```text
//!   /proc/PID/ns            of processes that we may look at: our own user's
//!   /proc/PID/status, map   of others: only whether they live where we do
//! ```

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::stat;
use rustix::process::{Pid, getpid};
use vrdma_provider::daemon;

/// The uid that the kernel shows for a user without a number here, unless it was told another one.
const OVERFLOW: u32 = 65534;

/// A namespace, identified by its file in /proc: device and inode.
type Id = (u64, u64);

/// The user and PID namespaces of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Namespaces {
    user: Id,
    pid: Id,
}

impl Namespaces {
    /// Finds the namespaces of the process at the other end of a socket. `None`: they cannot be found out.
    pub(crate) fn at(socket: BorrowedFd<'_>, pid: Pid) -> Option<Self> {
        let process = daemon::peer_process(socket, pid).ok()?;
        let found = Self::of(pid)?;
        // Otherwise the number may be that of another process by now.
        is_running(process.as_fd()).then_some(found)
    }

    /// The daemon's own namespaces.
    pub(crate) fn own() -> Option<Self> {
        static OWN: OnceLock<Option<Namespaces>> = OnceLock::new();
        *OWN.get_or_init(|| Self::shown(getpid()))
    }

    /// Whether uids mean the same there as in the daemon's namespace.
    pub(crate) fn has_our_users(&self) -> bool {
        Self::own().is_some_and(|own| own.user == self.user)
    }

    fn of(pid: Pid) -> Option<Self> {
        Self::shown(pid).or_else(|| lives_here(pid).then(Self::own)?)
    }

    /// The namespaces of a process that we may look at.
    fn shown(pid: Pid) -> Option<Self> {
        let id = |kind| {
            let path = format!("/proc/{}/ns/{kind}", pid.as_raw_nonzero());
            stat(path).ok().map(|file| (file.st_dev, file.st_ino))
        };
        Some(Self {
            user: id("user")?,
            pid: id("pid")?,
        })
    }
}

/// Whether a process has a number in one PID namespace only, and our uid map. Only root could make another namespace
/// with the map of the first one.
fn lives_here(pid: Pid) -> bool {
    let map = |pid: Pid| fs::read(format!("/proc/{}/uid_map", pid.as_raw_nonzero())).ok();
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    let has_one_number = status.is_ok_and(|status| numbers(&status) == Some(1));
    let (own, other) = (map(getpid()), map(pid));
    has_one_number && own.is_some() && own == other
}

/// Number of PID namespaces in which a process has a number, from `/proc/PID/status`.
fn numbers(status: &str) -> Option<usize> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.map(|numbers| numbers.split_ascii_whitespace().count())
}

/// Whether a process runs: its descriptor becomes readable when it has ended.
fn is_running(process: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut asked, Some(&at_once)) == Ok(0)
}

/// Whether the uid stands for users of other namespaces that have no number in ours.
pub(crate) fn is_nobody(uid: u32) -> bool {
    static NOBODY: OnceLock<u32> = OnceLock::new();
    let told = || fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    let nobody = NOBODY.get_or_init(|| {
        told()
            .and_then(|it| it.trim().parse().ok())
            .unwrap_or(OVERFLOW)
    });
    uid == *nobody
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use rustix::process::geteuid;

    use super::*;

    /// A process that ends when its input does.
    struct Running(Child);

    impl Running {
        /// Starts the command line `how`.
        fn start(how: &[&str]) -> Self {
            let mut command = Command::new(how[0]);
            let command = command.args(&how[1..]).args(["sh", "-c", "echo; cat"]);
            let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            // Once the process writes something, it is in its final state.
            rustix::io::read(child.stdout.as_mut().unwrap(), &mut [0; 1]).unwrap();
            Self(child)
        }

        fn pid(&self) -> Pid {
            Pid::from_child(&self.0)
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn a_process_of_ours_lives_here_and_one_in_a_container_does_not() {
        let own = Namespaces::own().unwrap();
        let here = Running::start(&["env"]);
        assert_eq!(Namespaces::of(here.pid()), Some(own));
        assert!(lives_here(here.pid()) && own.has_our_users());
        let apart = Running::start(&["unshare", "--user", "--map-root-user"]);
        assert!(!lives_here(apart.pid()));
        let found = Namespaces::of(apart.pid()).unwrap();
        assert!(!found.has_our_users() && found.pid == own.pid);
    }

    #[test]
    fn a_process_of_another_user_lives_here() {
        if !geteuid().is_root() {
            println!("not tested: only root can start a process of another user");
            return;
        }
        let other = Running::start(&["setpriv", "--reuid=4242", "--clear-groups"]);
        assert!(lives_here(other.pid()));
    }

    #[test]
    fn a_process_in_a_container_has_more_numbers() {
        assert_eq!(numbers("Name:\tx\nNSpid:\t77\nNSpgid:\t1\n"), Some(1));
        assert_eq!(numbers("NSpid:\t77\t1\n"), Some(2));
        assert_eq!(numbers("Name:\tx\n"), None);
    }

    #[test]
    fn users_without_a_number_are_nobody() {
        assert!(is_nobody(OVERFLOW) && !is_nobody(0));
    }
}
