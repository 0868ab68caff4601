//! Marks of processes that kept a thread waiting: all connections of a process share its mark.
//!
//! The kernel may hold a lock of the whole address space while a page does not come. Another connection of the same
//! process would meet that lock as well, even one that is made afterwards: so the mark stays until the process ends.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::process::Pid;

/// The mark of one process.
#[derive(Clone, Default, Debug)]
pub(crate) struct Stalled(Arc<AtomicBool>);

impl Stalled {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Relaxed);
    }

    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// A process; its number alone may later be another one's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Process {
    pid: i32,
    /// Start time, in ticks since boot.
    started: u64,
}

impl Process {
    /// Looks up a process; `None` if it has ended.
    fn of(pid: i32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let started = started(&status)?;
        Some(Self { pid, started })
    }
}

/// Reads field 22 of proc_pid_stat(5). Field 2 is a name in brackets, of any characters.
fn started(status: &str) -> Option<u64> {
    let (_, behind) = status.rsplit_once(')')?;
    behind.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The marks of a tenant's processes: of processes that have connections, and of marked processes that still exist.
#[derive(Default)]
pub(crate) struct Marks(BTreeMap<Process, Stalled>);

impl Marks {
    /// Returns the mark of a process; a separate mark if nothing is known of the process.
    pub(crate) fn of(&mut self, pid: Pid) -> Stalled {
        self.0.retain(|process, mark| {
            let lives = || Process::of(process.pid) == Some(*process);
            mark.is_shared() || mark.is_set() && lives()
        });
        let process = Process::of(pid.as_raw_nonzero().get());
        process.map_or_else(Stalled::default, |process| {
            self.0.entry(process).or_default().clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let status = "12 (a) 1 (b)) S 1 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8765 1 2";
        assert_eq!(started(status), Some(8765));
        assert_eq!(started("12 (a) S 1"), None);
        assert_eq!(started(""), None);
    }

    #[test]
    fn a_mark_stays_as_long_as_its_process() {
        let mut marks = Marks::default();
        let own = rustix::process::getpid();
        marks.of(own).set();
        assert!(marks.of(own).is_set(), "no connection had it meanwhile");
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(!marks.of(pid).is_set(), "another process");
        assert_eq!(marks.0.len(), 2);
        marks.of(pid).set();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!marks.of(pid).is_set(), "it has ended");
        assert!(marks.of(own).is_set());
        assert_eq!(marks.0.len(), 1);
    }
}
