//! Workers that end in every way, under a keeper in a process of its own: this program again, with its role in the
//! environment. It has a `main` because a keeper must not have other threads.

mod parts;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio, exit};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Variables that name the role to play, and the directory to use.
const PART: &str = "VRDMA_KEEP_PART";
const DIRECTORY: &str = "VRDMA_KEEP_DIRECTORY";
/// Name of the socket that the worker connects to.
const SOCKET: &str = "socket";
/// Longer than any step takes: a wait of that length is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// Argument that asks a program whether it can go on for another.
const QUESTION: &str = "--can-go-on";

const TESTS: [(&str, fn()); 9] = [
    ("descriptors_outlive_workers", descriptors_outlive_workers),
    (
        "crashes_are_not_repeated_for_ever",
        crashes_are_not_repeated_for_ever,
    ),
    ("panics_are_crashes", panics_are_crashes),
    ("signals_are_handed_on", signals_are_handed_on),
    (
        "the_worker_ends_with_its_keeper",
        the_worker_ends_with_its_keeper,
    ),
    ("a_keeper_has_one_thread", a_keeper_has_one_thread),
    ("another_program_goes_on", another_program_goes_on),
    (
        "a_program_that_refuses_changes_nothing",
        a_program_that_refuses_changes_nothing,
    ),
    (
        "the_program_before_goes_on_if_the_other_one_fails",
        the_program_before_goes_on_if_the_other_one_fails,
    ),
];

fn main() {
    if std::env::args().any(|argument| argument == QUESTION) {
        exit(parts::answer());
    }
    if let (Ok(part), Ok(directory)) = (std::env::var(PART), std::env::var(DIRECTORY)) {
        exit(parts::play(&part, &PathBuf::from(directory)));
    }
    let filter = std::env::args().skip(1).find(|text| !text.starts_with('-'));
    for (name, test) in TESTS {
        if filter.as_ref().is_none_or(|text| name.contains(text)) {
            test();
            println!("test {name} ... ok");
        }
    }
}

/// A running keeper, and the listener that its workers connect to.
struct Keeper {
    process: Child,
    listener: UnixListener,
    _directory: TempDir,
}

impl Keeper {
    fn start(part: &str) -> Self {
        let directory = TempDir::new().unwrap();
        Self::start_program(part, directory, &std::env::current_exe().unwrap())
    }

    fn start_program(part: &str, directory: TempDir, program: &Path) -> Self {
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let process = Command::new(program)
            .env(PART, part)
            .env(DIRECTORY, directory.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            process,
            listener,
            _directory: directory,
        }
    }

    fn accept(&self) -> UnixStream {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Returns its exit code and its standard error.
    fn end(self) -> (Option<i32>, String) {
        let Output { status, stderr, .. } = self.process.wait_with_output().unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    }
}

fn next(stream: &mut UnixStream) -> u8 {
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    byte[0]
}

fn descriptors_outlive_workers() {
    let keeper = Keeper::start("descriptors");
    let mut said = String::new();
    keeper.accept().read_to_string(&mut said).unwrap();
    let end = keeper.end();
    assert_eq!((said.as_str(), end.0), ("012", Some(7)), "{}", end.1);
}

fn crashes_are_not_repeated_for_ever() {
    let (code, said) = Keeper::start("crash").end();
    assert_eq!(code, Some(1));
    let sentence = "crashed 3 times within a minute (signal 9, signal 9, signal 9)";
    assert!(said.contains(sentence), "{said}");
}

fn panics_are_crashes() {
    let (code, said) = Keeper::start("panic").end();
    assert_eq!(code, Some(1));
    let sentence = "(exit code 101, exit code 101, exit code 101)";
    assert!(said.contains(sentence), "{said}");
}

fn signals_are_handed_on() {
    let keeper = Keeper::start("signals");
    let mut worker = keeper.accept();
    assert_eq!(next(&mut worker), b'0');
    keeper.signal(Signal::INT);
    assert_eq!(next(&mut worker), b'i');
    keeper.signal(Signal::TERM);
    assert_eq!(next(&mut worker), b't');
    keeper.signal(Signal::TERM);
    assert_eq!(next(&mut worker), b't');
    // The worker then kills itself; since the keeper was told to end, no other worker follows.
    let (code, said) = keeper.end();
    assert_eq!((code, said.as_str()), (Some(128 + 9), ""));
}

fn the_worker_ends_with_its_keeper() {
    let keeper = Keeper::start("signals");
    let mut worker = keeper.accept();
    assert_eq!(next(&mut worker), b'0');
    keeper.signal(Signal::KILL);
    assert_eq!(worker.read(&mut [0]).unwrap(), 0);
    assert_eq!(keeper.end().0, None);
}

fn a_keeper_has_one_thread() {
    let (code, said) = Keeper::start("thread").end();
    assert_eq!(code, Some(1));
    assert!(said.contains("other threads run already"), "{said}");
}

/// A keeper whose program can be replaced.
struct Upgraded {
    keeper: Keeper,
    program: PathBuf,
    worker: BufReader<UnixStream>,
}

impl Upgraded {
    fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let program = directory.path().join("lives");
        install(&program, "first");
        let keeper = Keeper::start_program("upgrade", directory, &program);
        let worker = BufReader::new(keeper.accept());
        Self {
            keeper,
            program,
            worker,
        }
    }

    /// Replaces the program's file by one with this behaviour, and asks the keeper to go on with it.
    fn upgrade(&self, behaviour: &str) {
        install(&self.program, behaviour);
        self.keeper.signal(Signal::HUP);
    }

    #[track_caller]
    fn hears(&mut self, expected: &str) {
        let mut line = String::new();
        self.worker.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), expected);
    }

    fn end(self) -> String {
        self.keeper.signal(Signal::TERM);
        let (code, said) = self.keeper.end();
        assert_eq!(code, Some(7), "{said}");
        said
    }
}

/// Replaces the file by another one of the same name, as package managers do.
fn install(program: &Path, behaviour: &str) {
    let fresh = program.with_extension("fresh");
    fs::copy(std::env::current_exe().unwrap(), &fresh).unwrap();
    fs::write(program.with_extension("behaviour"), behaviour).unwrap();
    fs::rename(fresh, program).unwrap();
}

fn another_program_goes_on() {
    let mut upgraded = Upgraded::start();
    upgraded.hears("0 first");
    for number in 1..4 {
        let behaviour = format!("good {number}");
        upgraded.upgrade(&behaviour);
        upgraded.hears(&format!("{number} {behaviour}"));
        upgraded.hears("done:");
    }
    assert_eq!(upgraded.end(), "");
}

fn a_program_that_refuses_changes_nothing() {
    let mut upgraded = Upgraded::start();
    upgraded.hears("0 first");
    upgraded.upgrade("refuses");
    upgraded.hears("refused: lives: it cannot");
    upgraded.upgrade("does not know");
    upgraded.hears("refused: it does not know how to go on for this one (exit status: 0)");
    fs::remove_file(&upgraded.program).unwrap();
    upgraded.keeper.signal(Signal::HUP);
    upgraded.hears("refused: it cannot be started: No such file or directory (os error 2)");
    upgraded.upgrade("good");
    upgraded.hears("1 good");
    upgraded.hears("done:");
    upgraded.end();
}

fn the_program_before_goes_on_if_the_other_one_fails() {
    let mut upgraded = Upgraded::start();
    upgraded.hears("0 first");
    upgraded.upgrade("crashes");
    upgraded.hears("2 before");
    upgraded.hears("went back: its worker ended before it served (signal 9)");
    upgraded.upgrade("cannot begin");
    upgraded.hears("3 before");
    upgraded.hears("went back: it cannot begin");
    upgraded.upgrade("good");
    upgraded.hears("4 good");
    upgraded.hears("done:");
    upgraded.end();
}
