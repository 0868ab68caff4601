//! Whether a server in the guest is ready for its client.
//!
//! A program does not tell when it is ready, so its processes are watched. The plain sign is that one of them listens,
//! by TCP or by `rdma_cm`. A server that shows no sign counts as ready when all of its processes sleep and have used no
//! more processor time for a while. A server that is gone needs no more waiting.

mod rdma;

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

/// Interval between two looks at the processes.
const INTERVAL: Duration = Duration::from_millis(50);

/// Looks in a row that must find all processes of a server asleep and unchanged. Many times longer than a starting
/// server waits for its device or for a name: only a server without any sign is waited for that long.
const READY_LOOKS: u32 = 60;

/// The same number for a server whose client has ended, and which would end at once.
const FINISHED_LOOKS: u32 = 10;

/// Most looks: a server that is busy for so long (20 s) is busy with serving.
const MAX_LOOKS: u32 = 400;

/// Why a server needs no more waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It listens.
    Listening,
    /// All its processes sleep.
    Quiet,
    /// It has no process any more.
    Gone,
    /// It was busy until the last look.
    Busy,
}

/// Watches a server's process group until it has settled.
#[must_use]
pub fn watch(group: u32) -> Settled {
    watch_or(group, || false)
}

/// The same where `elsewhere` may also show that the server listens.
#[must_use]
pub fn watch_or(group: u32, elsewhere: impl Fn() -> bool) -> Settled {
    let ready = |processes: &[Process]| listens(processes) || elsewhere();
    watch_until(group, ready, READY_LOOKS)
}

/// The same for a server whose client has ended. Whether it listens does not matter: some servers do until they exit.
#[must_use]
pub fn watch_end(group: u32) -> Settled {
    watch_end_or(group, || false)
}

/// The same where `gone` may also show that the server has ended.
#[must_use]
pub fn watch_end_or(group: u32, gone: impl Fn() -> bool) -> Settled {
    watch_until(group, |_| gone(), FINISHED_LOOKS)
}

fn watch_until(group: u32, ready: impl Fn(&[Process]) -> bool, quiet_looks: u32) -> Settled {
    let mut quiet = QuietCount::default();
    for _ in 0..MAX_LOOKS {
        let processes = processes_of(group);
        if processes.is_empty() {
            return Settled::Gone;
        }
        if ready(&processes) {
            return Settled::Listening;
        }
        if quiet.look(&processes) >= quiet_looks {
            return Settled::Quiet;
        }
        thread::sleep(INTERVAL);
    }
    Settled::Busy
}

/// Looks in a row that saw the same sleeping processes.
#[derive(Default)]
struct QuietCount {
    last: Vec<Process>,
    looks: u32,
}

impl QuietCount {
    fn look(&mut self, processes: &[Process]) -> u32 {
        let quiet = processes == self.last && processes.iter().all(|process| process.asleep);
        self.looks = if quiet { self.looks + 1 } else { 0 };
        self.last = processes.to_vec();
        self.looks
    }
}

/// One line of /proc/PID/stat, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: u32,
    group: u32,
    asleep: bool,
    /// Processor time in clock ticks.
    ticks: u64,
}

impl Process {
    /// Parses the columns of proc_pid_stat(5); the program's name, in parentheses, may itself hold blanks and
    /// parentheses.
    fn parse(stat: &str) -> Option<Self> {
        let (before, after) = stat.rsplit_once(") ")?;
        let columns: Vec<&str> = after.split(' ').collect();
        if columns.first() == Some(&"Z") {
            // A zombie has ended; its parent has only not collected it yet.
            return None;
        }
        let number = |index: usize| columns.get(index)?.parse::<u64>().ok();
        Some(Self {
            pid: before.split(' ').next()?.parse().ok()?,
            asleep: columns.first() == Some(&"S"),
            group: u32::try_from(number(2)?).ok()?,
            ticks: number(11)? + number(12)?,
        })
    }
}

fn processes_of(group: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes: Vec<Process> = entries
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|stat| Process::parse(&stat))
        .filter(|process| process.group == group)
        .collect();
    processes.sort_by_key(|process| process.pid);
    processes
}

fn listens(processes: &[Process]) -> bool {
    listens_by_tcp(processes)
        || rdma::listeners()
            .iter()
            .any(|listener| processes.iter().any(|process| process.pid == *listener))
}

/// Whether a process listens by TCP. It may be in another network namespace than this one, so its own tables are read.
fn listens_by_tcp(processes: &[Process]) -> bool {
    processes.iter().any(|process| {
        let folder = Path::new("/proc").join(process.pid.to_string());
        let tables = ["net/tcp", "net/tcp6"].map(|table| fs::read_to_string(folder.join(table)));
        let listening: HashSet<String> = tables
            .into_iter()
            .flatten()
            .flat_map(|table| listening_inodes(&table))
            .collect();
        let descriptors = folder.join("fd");
        let links = fs::read_dir(descriptors).into_iter().flatten().flatten();
        links
            .filter_map(|link| fs::read_link(link.path()).ok())
            .any(|target| {
                let target = target.to_string_lossy();
                let inode = target
                    .strip_prefix("socket:[")
                    .and_then(|rest| rest.strip_suffix(']'));
                inode.is_some_and(|inode| listening.contains(inode))
            })
    })
}

/// Socket inodes of /proc/net/tcp whose state is `0A`, TCP_LISTEN.
fn listening_inodes(table: &str) -> Vec<String> {
    let rows = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(3) == Some(&"0A"))
        .filter_map(|row| row.get(9).map(ToString::to_string))
        .collect()
}

#[cfg(test)]
mod tests;
