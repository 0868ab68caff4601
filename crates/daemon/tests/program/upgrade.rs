//! Another version of the program is installed, and the keeper goes on with it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{ADAPTERS, Place, Running, Supervisor};

/// A daemon whose program is in a folder of its own, with a keeper or without.
pub(super) struct Daemon {
    pub(super) place: Place,
    pub(super) supervisor: Supervisor,
    pub(super) running: Running,
    log: BufReader<ChildStderr>,
}

impl Daemon {
    pub(super) fn start() -> Self {
        Self::configured("supervise = true\n")
    }

    fn configured(daemon: &str) -> Self {
        let place = Place::new(&format!("{daemon}{ADAPTERS}"));
        let program = install(&place, Path::new(env!("CARGO_BIN_EXE_vrdmad")));
        let supervisor = Supervisor::new(&place);
        let mut command = Command::new(program);
        command.arg("--config").arg(place.path("vrdmad.toml"));
        command.stderr(Stdio::piped());
        let mut running = Running::start_under(&supervisor, command, &place);
        let log = BufReader::new(running.0.stderr.take().unwrap());
        Self {
            place,
            supervisor,
            running,
            log,
        }
    }

    pub(super) fn hang_up(&self) {
        kill_process(Pid::from_child(&self.running.0), Signal::HUP).unwrap();
    }

    /// Returns the program that the keeper runs.
    fn program(&self) -> PathBuf {
        fs::read_link(format!("/proc/{}/exe", self.running.0.id())).unwrap()
    }

    fn hears_refusal(&mut self) -> String {
        self.hears("refused, and nothing was changed: ")
    }

    /// Waits for these words in the log, and returns what follows them.
    pub(super) fn hears(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "it has ended");
            if let Some((_, rest)) = line.split_once(words) {
                return rest.trim_end().to_owned();
            }
        }
    }
}

/// Puts a copy of `program` in the place of the daemon's.
fn install(place: &Place, program: &Path) -> PathBuf {
    fs::copy(program, place.path("fresh")).unwrap();
    fs::rename(place.path("fresh"), place.path("vrdmad")).unwrap();
    place.path("vrdmad")
}

#[test]
fn a_keeper_goes_on_with_the_program_that_is_installed() {
    let mut kept = Daemon::start();
    let path = install(&kept.place, Path::new(env!("CARGO_BIN_EXE_vrdmad")));
    assert_ne!(kept.program(), path, "it is not that file any more");
    kept.hang_up();
    while !kept.supervisor.hear().starts_with("READY=1") {}
    assert_eq!(kept.program(), path);
    assert!(kept.running.signal(Signal::TERM).success());
    assert!(kept.place.files().is_empty(), "{:?}", kept.place.files());
}

/// A line that cannot be written, because the collector of the log has ended, ends neither keeper nor worker.
#[test]
fn a_keeper_whose_log_nobody_reads_goes_on() {
    let Daemon {
        place,
        supervisor,
        mut running,
        log,
    } = Daemon::start();
    drop(log);
    // The outcome of the first upgrade is logged when the second one begins, at the latest.
    for _ in 0..2 {
        install(&place, Path::new(env!("CARGO_BIN_EXE_vrdmad")));
        kill_process(Pid::from_child(&running.0), Signal::HUP).unwrap();
        while !supervisor.hear().starts_with("READY=1") {}
    }
    assert!(running.signal(Signal::TERM).success());
}

#[test]
fn a_program_that_cannot_go_on_is_refused_by_a_sentence() {
    let mut kept = Daemon::start();
    install(&kept.place, Path::new("/bin/true"));
    kept.hang_up();
    let why = kept.hears_refusal();
    assert!(why.starts_with("it does not know how to go on"), "{why}");
    let ours = install(&kept.place, Path::new(env!("CARGO_BIN_EXE_vrdmad")));
    let file = kept.place.path("vrdmad.toml");
    let configuration = fs::read_to_string(&file).unwrap();
    fs::write(&file, configuration.replace("supervise = true\n", "")).unwrap();
    kept.hang_up();
    let why = kept.hears_refusal();
    assert!(why.contains("supervise is off"), "{why}");
    fs::write(&file, configuration.replace("blue", "Blue!")).unwrap();
    kept.hang_up();
    let why = kept.hears_refusal();
    assert!(why.contains("vrdmad.toml"), "{why}");
    let said = Command::new(ours)
        .arg("--config")
        .arg(&file)
        .arg("--goes-on-from=0")
        .output();
    assert_eq!(said.unwrap().status.code(), Some(2));
    assert!(kept.running.signal(Signal::TERM).success());
}

#[test]
fn a_daemon_without_a_keeper_tells_that_it_cannot_and_goes_on() {
    let mut daemon = Daemon::configured("");
    daemon.hang_up();
    let why = daemon.hears("SIGHUP is ignored: ");
    assert!(why.starts_with("supervise is off"), "{why}");
    assert!(daemon.running.signal(Signal::TERM).success());
}
