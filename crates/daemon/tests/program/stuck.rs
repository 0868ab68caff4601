//! A data path thread stands still: it is stopped by ptrace, as by a debugger, while the others go on.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::net::UnixStream;
use std::process::{ChildStderr, Command, Stdio};

use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid as ThreadId;
use rustix::process::{Pid, Signal, kill_process};
use vrdma_api::{Status, paths};
use vrdma_api_client::{Client, Error};

use super::{Place, Running, Supervisor};

const CONFIG: &str = "shards = 2\n[[portgroup]]\nname = \"blue\"\n\
    [[adapter]]\nname = \"c0\"\nportgroup = \"blue\"\nkind = \"process\"\nshard = 0\n\
    [[adapter]]\nname = \"c1\"\nportgroup = \"blue\"\nkind = \"process\"\nshard = 1\n";

/// A thread of another process that stands still.
struct Stopped(ThreadId);

impl Stopped {
    fn thread(daemon: &Running, name: &str) -> Self {
        let folder = daemon.thread(name);
        let number = folder.file_name().unwrap().to_str().unwrap();
        let thread = ThreadId::from_raw(number.parse().unwrap());
        ptrace::seize(thread, Options::PTRACE_O_EXITKILL).unwrap();
        ptrace::interrupt(thread).unwrap();
        let stopped = waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        assert!(
            matches!(stopped, WaitStatus::PtraceEvent(..)),
            "{stopped:?}"
        );
        Self(thread)
    }

    fn go_on(self) {
        ptrace::detach(self.0, None).unwrap();
    }

    /// Waits until the thread has ended with its process.
    fn end(self) {
        waitpid(self.0, Some(WaitPidFlag::__WALL)).unwrap();
    }
}

struct Log(Lines<BufReader<ChildStderr>>);

impl Log {
    fn wait_for(&mut self, text: &str) -> String {
        let lines = self.0.by_ref().map(Result::unwrap);
        let line = lines.into_iter().find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("no line has {text:?}"))
    }
}

/// Returns the command of a daemon with a watchdog, which debuggers may attach to.
fn command(place: &Place, watchdog_usec: &str) -> Command {
    let mut command = place.command();
    command
        .arg("--core-dumps")
        .stderr(Stdio::piped())
        .env("WATCHDOG_USEC", watchdog_usec);
    command
}

fn start(place: &Place) -> (Running, Log) {
    let supervisor = Supervisor::new(place);
    let mut daemon = Running::start_under(&supervisor, command(place, "60000000"), place);
    fs::remove_file(place.path("notify")).unwrap();
    let log = BufReader::new(daemon.0.stderr.take().unwrap()).lines();
    (daemon, Log(log))
}

fn signal(daemon: &Running, signal: Signal) {
    kill_process(Pid::from_child(&daemon.0), signal).unwrap();
}

fn status_of_refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> (u16, String) {
    match answer.unwrap_err() {
        Error::Refused { status, sentence } => (status, sentence),
        error => panic!("{error}"),
    }
}

#[test]
fn the_api_answers_while_a_shard_stands_still_and_changes_wait_for_nobody() {
    let place = Place::new(CONFIG);
    let (daemon, mut log) = start(&place);
    let stopped = Stopped::thread(&daemon, "shard-1");
    let api = Client::new(place.path("run/vrdmad.sock")).unwrap();
    let ask = |method: &str, path: &str, body: &str| {
        api.ask(method.parse().unwrap(), path, body.to_owned())
            .map(|answer| answer.status)
    };
    let add = r#"{ "name": "c2", "portgroup": "blue", "kind": "process", "shard": 1 }"#;
    for (method, path, body) in [
        ("GET", "/v1/stats", ""),
        ("POST", "/v1/adapters", add),
        ("DELETE", "/v1/adapters/c1", ""),
        ("POST", "/v1/adapters/c1/move", r#"{ "shard": 0 }"#),
        ("POST", "/v1/adapters/c0/move", r#"{ "shard": 1 }"#),
    ] {
        let (status, sentence) = status_of_refusal(ask(method, path, body));
        assert_eq!(status, 503, "{method} {path}: {sentence}");
        assert!(sentence.starts_with("shard 1 of the daemon has not answered for "));
    }
    let status: Status = api.get(paths::STATUS).unwrap();
    assert_eq!(status.shards[0].silent_ms, None);
    assert!(status.shards[1].silent_ms.is_some());
    assert_eq!(ask("GET", "/v1/adapters/c1", "").unwrap(), 200);
    let trace = ask("POST", "/v1/adapters/c0/trace", "");
    assert_eq!(trace.unwrap(), 200, "shard 0 goes on");
    let told = log.wait_for("shard 1 has made no turn for");
    assert!(told.contains("ERROR"), "{told}");
    stopped.go_on();
    log.wait_for("shard 1 goes on");
    assert_eq!(ask("DELETE", "/v1/adapters/c1", "").unwrap(), 204);
    assert_eq!(
        ask("POST", "/v1/adapters", add).unwrap(),
        201,
        "the first one left nothing"
    );
    assert_eq!(
        ask("POST", "/v1/adapters/c0/move", r#"{ "shard": 1 }"#).unwrap(),
        200
    );
}

#[test]
fn a_shard_that_stands_still_does_not_hold_up_the_end() {
    let place = Place::new(CONFIG);
    let (mut daemon, mut log) = start(&place);
    let stopped = Stopped::thread(&daemon, "shard-1");
    signal(&daemon, Signal::TERM);
    log.wait_for("stopped without shard 1, which stands still");
    stopped.end();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(1));
    let mut next = Running::start(&place);
    assert!(next.signal(Signal::TERM).success());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let place = Place::new(CONFIG);
    let (mut daemon, mut log) = start(&place);
    let stopped = Stopped::thread(&daemon, "shard-0");
    let mut half = UnixStream::connect(place.path("run/vrdmad.sock")).unwrap();
    half.write_all(b"GET /v1/sta").unwrap();
    signal(&daemon, Signal::TERM);
    log.wait_for("stopping");
    signal(&daemon, Signal::TERM);
    log.wait_for("a second signal ends it at once");
    stopped.end();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(1));
}

#[test]
fn the_supervisor_hears_from_the_daemon_while_all_threads_go_on() {
    let place = Place::new(CONFIG);
    let supervisor = Supervisor::new(&place);
    let mut daemon = Running::start_under(&supervisor, command(&place, "200000"), &place);
    let mut log = Log(BufReader::new(daemon.0.stderr.take().unwrap()).lines());
    assert_eq!(supervisor.hear(), "WATCHDOG=1\n");
    let stopped = Stopped::thread(&daemon, "ethernet");
    log.wait_for("the Ethernet thread has made no turn for");
    // Skips messages from before.
    supervisor.0.set_nonblocking(true).unwrap();
    while supervisor.0.recv(&mut [0; 64]).is_ok() {}
    supervisor.0.set_nonblocking(false).unwrap();
    stopped.go_on();
    log.wait_for("the Ethernet thread goes on");
    assert_eq!(supervisor.hear(), "WATCHDOG=1\n");
}
