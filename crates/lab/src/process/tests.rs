use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{PidfdFlags, pidfd_open};

use super::*;

const LONG: Duration = Duration::from_secs(30);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Lines that children write, each available at once.
struct Lines {
    _folder: tempfile::TempDir,
    path: PathBuf,
    /// Open for writing too, so that reading at the end waits for more.
    pipe: BufReader<File>,
}

impl Lines {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let pipe = File::options().read(true).write(true).open(&path).unwrap();
        Self {
            _folder: folder,
            path,
            pipe: BufReader::new(pipe),
        }
    }

    fn next(&mut self) -> String {
        let mut line = String::new();
        self.pipe.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// A process whose number is the next line.
    fn process(&mut self) -> OwnedFd {
        handle(self.next().parse().unwrap())
    }
}

fn handle(process: u32) -> OwnedFd {
    let number = Pid::from_raw(i32::try_from(process).unwrap());
    pidfd_open(number.unwrap(), PidfdFlags::empty()).unwrap()
}

/// Whether a process ends within a time. Its parent may leave it a zombie for any time.
fn ends_within(process: &OwnedFd, limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).unwrap();
    let mut ends = [PollFd::new(process, PollFlags::IN)];
    poll(&mut ends, Some(&limit)).unwrap() == 1
}

#[test]
fn output_and_environment_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = shell("echo \"$WHAT\"; echo err >&2; exit 4");
    command.env("WHAT", "out");
    let mut child = Supervised::spawn(&command, Some(&log), Lifetime::Owned).unwrap();
    assert_eq!(child.wait_for_exit(LONG).unwrap().unwrap().code(), Some(4));
    assert_eq!(std::fs::read_to_string(log).unwrap(), "out\nerr\n");
}

#[test]
fn dropping_kills_the_group() {
    let mut lines = Lines::new();
    let command = shell("sleep 1000 & echo $!; wait");
    let child = Supervised::spawn(&command, Some(&lines.path), Lifetime::Owned).unwrap();
    let grandchild = lines.process();
    drop(child);
    assert!(ends_within(&grandchild, LONG));
}

#[test]
fn a_child_and_its_own_die_with_their_owner() {
    let mut lines = Lines::new();
    let mut watched = watched(&shell("sleep 1000 & echo $!; wait"));
    let output = File::options().write(true).open(&lines.path).unwrap();
    let mut child = watched.stdout(output).spawn().unwrap();
    let grandchild = lines.process();
    assert!(child.try_wait().unwrap().is_none());
    // Ends the owner, as far as the watcher can see.
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success());
    assert!(ends_within(&grandchild, LONG));
}

#[test]
fn a_kept_child_stays() {
    let child = Supervised::spawn(&shell("exec sleep 1000"), None, Lifetime::Kept).unwrap();
    let process = child.id();
    let kept = handle(process);
    drop(child);
    assert!(!ends_within(&kept, Duration::ZERO));
    signal_group(process, Signal::KILL);
}

#[test]
fn stopping_is_polite_first() {
    let mut lines = Lines::new();
    // The signal also ends the `sleep`, which some shells report as an error.
    let script =
        "exec 2>/dev/null; trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let command = shell(script);
    let mut child = Supervised::spawn(&command, Some(&lines.path), Lifetime::Owned).unwrap();
    assert_eq!(lines.next(), "up");
    child.stop(LONG);
    assert_eq!(lines.next(), "bye");
}
