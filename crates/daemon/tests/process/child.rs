//! A second process: this test program again, in one of the roles below.
//!
//! ```text
//!   test ── starts ──► child ── one line: what the test has to know ──► test
//!        ── a line, or the end of its input ──► child goes on, or ends
//! ```

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::hostile::villain;
use crate::stalling::late;
use crate::{fast, quotas, stalling, stopped};

/// Variable with the role of a child.
const PART: &str = "VRDMA_TEST_PART";
/// Variable with the path of the daemon's socket.
const SOCKET: &str = "VRDMA_TEST_SOCKET";
/// Variable with the path of a file for the child.
const FILE: &str = "VRDMA_TEST_FILE";
/// Prefix of lines meant for the test: the child's test harness writes lines too.
const MARK: &str = "child: ";

/// A child process, which ends with this value.
pub(crate) struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    pub(crate) fn start(part: &str, socket: &Path) -> Self {
        Self::begin(Command::new(std::env::current_exe().unwrap()), part, socket)
    }

    /// Starts a child with a file, in the namespaces of this process.
    pub(crate) fn start_with(part: &str, socket: &Path, file: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(FILE, file);
        Self::begin(command, part, socket)
    }

    /// Starts a child in a user and a mount namespace of its own, where it is root.
    pub(crate) fn start_apart(part: &str, socket: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--"]);
        command.arg(std::env::current_exe().unwrap());
        Self::begin(command, part, socket)
    }

    /// Starts a child in a PID namespace of its own, as in a container. Only root can do that.
    pub(crate) fn start_contained(part: &str, socket: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--"]);
        command.arg(std::env::current_exe().unwrap());
        Self::begin(command, part, socket)
    }

    fn begin(mut command: Command, part: &str, socket: &Path) -> Self {
        let mut process = command
            .args([
                "--exact",
                "child::plays_its_part",
                "--ignored",
                "--nocapture",
            ])
            .env(PART, part)
            .env(SOCKET, socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Reads the child's next line for the test, as numbers.
    pub(crate) fn numbers(&mut self) -> Vec<u64> {
        let mut line = String::new();
        while !line.contains(MARK) {
            line.clear();
            assert_ne!(
                self.output.read_line(&mut line).unwrap(),
                0,
                "the child ended"
            );
        }
        let (_, said) = line.split_once(MARK).unwrap();
        said.split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect()
    }

    pub(crate) fn tell(&mut self, number: u64) {
        writeln!(self.input.as_mut().unwrap(), "{number}").unwrap();
    }

    /// Stops the child, and returns once it stands still.
    pub(crate) fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let status = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap();
        assert!(status.unwrap().1.stopped(), "it ended instead");
    }

    pub(crate) fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends numbers to the test.
pub(crate) fn say(numbers: &[u64]) {
    let words: Vec<_> = numbers.iter().map(u64::to_string).collect();
    println!("\n{MARK}{}", words.join(" "));
}

/// Receives the test's next number; `None` at the end.
pub(crate) fn listen() -> Option<u64> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().parse().ok()
}

/// Returns the file that the child was started with.
pub(crate) fn file() -> PathBuf {
    PathBuf::from(std::env::var_os(FILE).unwrap())
}

#[test]
#[ignore = "a part of other tests, which start it"]
fn plays_its_part() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    // The test may be killed while one of its threads waits for this process.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let socket = PathBuf::from(std::env::var_os(SOCKET).unwrap());
    match part.as_str() {
        "fast" => fast::lends(&socket),
        "file" => stalling::serves_a_file(&socket),
        "file, later" => late::serves_a_file(&socket),
        "greedy" => quotas::takes_all(&socket),
        "late" => late::uses_a_file(&socket),
        "memory" => lends_its_memory(),
        "traffic" => stopped::keeps_busy(&socket),
        "villain" => villain::torments(&socket),
        other => panic!("no such part: {other}"),
    }
}

/// Sends the addresses of a number and a buffer, and waits.
fn lends_its_memory() {
    let number = Box::new(0x1234_5678u64);
    let buffer = vec![7u8; 1 << 16];
    say(&[
        (&raw const *number) as u64,
        *number,
        buffer.as_ptr() as u64,
        buffer.len() as u64,
    ]);
    assert_eq!(listen(), None);
}
