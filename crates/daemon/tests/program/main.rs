//! `vrdmad` as a process: arguments, exit statuses, signals, files.

mod following;
mod incoming;
mod sandbox;
mod stuck;
mod upgrade;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

const ADAPTERS: &str =
    "[[portgroup]]\nname = \"blue\"\n[[adapter]]\nname = \"vm1\"\nportgroup = \"blue\"\n";

/// A folder with a configuration and room for sockets.
struct Place(tempfile::TempDir);

impl Place {
    fn new(rest: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self(folder);
        let text = format!("[daemon]\nrun_dir = {:?}\n{rest}", place.path("run"));
        fs::write(place.path("vrdmad.toml"), text).unwrap();
        place
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vrdmad"));
        command
            .arg("--config")
            .arg(self.path("vrdmad.toml"))
            .env_remove("NOTIFY_SOCKET");
        command
    }

    /// Lists the run folder, without the file that is kept for the next daemon.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("run")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "locations").collect();
        names.sort();
        names
    }
}

/// A service supervisor, from the daemon's point of view.
struct Supervisor(UnixDatagram);

impl Supervisor {
    fn new(place: &Place) -> Self {
        let notified = UnixDatagram::bind(place.path("notify")).unwrap();
        notified
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        Self(notified)
    }

    /// Waits for the daemon's next message.
    fn hear(&self) -> String {
        let mut message = [0; 64];
        let length = self.0.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_owned()).unwrap()
    }
}

/// A daemon that has reported that it is ready.
struct Running(Child);

impl Running {
    fn start(place: &Place) -> Self {
        let running = Self::start_under(&Supervisor::new(place), place.command(), place);
        fs::remove_file(place.path("notify")).unwrap();
        running
    }

    fn start_under(supervisor: &Supervisor, mut command: Command, place: &Place) -> Self {
        let child = command.env("NOTIFY_SOCKET", place.path("notify")).spawn();
        let running = Self(child.unwrap());
        // The watchdog reports before that.
        while !supervisor.hear().starts_with("READY=1") {}
        running
    }

    /// Returns the daemon's thread of that name: a folder in `/proc`.
    fn thread(&self, name: &str) -> PathBuf {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let mut tasks = tasks.map(|task| task.unwrap().path());
        let is_named =
            |task: &PathBuf| fs::read_to_string(task.join("comm")).unwrap().trim_end() == name;
        tasks.find(is_named).unwrap()
    }

    fn signal(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn mode(path: &Path) -> u32 {
    let metadata = fs::metadata(path).unwrap();
    assert!(metadata.file_type().is_socket());
    metadata.permissions().mode() & 0o777
}

/// Returns the only line on standard error of a daemon that refused to start.
fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let line = text.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'), "{line}");
    line.strip_prefix("vrdmad: ").unwrap().to_owned()
}

#[test]
fn sockets_come_with_the_daemon_and_go_with_it() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new(ADAPTERS);
        let mut daemon = Running::start(&place);
        assert_eq!(
            place.files(),
            [
                "process.sock",
                "vm1.ethernet",
                "vm1.vfio-user",
                "vrdmad.sock"
            ]
        );
        assert_eq!(mode(&place.path("run/vrdmad.sock")), 0o600);
        assert_eq!(mode(&place.path("run/process.sock")), 0o660);
        assert_eq!(mode(&place.path("run/vm1.ethernet")), 0o660);
        assert_eq!(mode(&place.path("run/vm1.vfio-user")), 0o660);
        assert!(daemon.signal(signal).success());
        assert!(place.files().is_empty(), "{:?}", place.files());
    }
}

/// Returns the cores that the thread of that name may run on, as the kernel writes them.
fn cores(daemon: &Running, name: &str) -> String {
    let status = fs::read_to_string(daemon.thread(name).join("status")).unwrap();
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
    list.unwrap().to_owned()
}

#[test]
fn the_shard_has_a_core_for_itself_if_it_is_given_one() {
    // A daemon that serves an adapter has set its cores.
    let all = cores(&Running::start(&Place::new(ADAPTERS)), "shard-0");
    let last = all.rsplit([',', '-']).next().unwrap();
    let daemon = Running::start(&Place::new(&format!("cores = \"{last}\"\n{ADAPTERS}")));
    assert_eq!(cores(&daemon, "shard-0"), last);
    assert_eq!(cores(&daemon, "vrdmad"), all);
}

#[test]
fn a_core_that_is_not_there_is_refused() {
    let output = Place::new("cores = \"99999\"\n")
        .command()
        .output()
        .unwrap();
    let sentence = refusal(&output);
    let said = "vrdmad.toml, line 3, key cores: the daemon may not use core 99999; choose of ";
    assert!(sentence.contains(said), "{sentence}");
}

#[test]
fn a_killed_daemon_is_succeeded() {
    let place = Place::new(ADAPTERS);
    Running::start(&place).signal(Signal::KILL);
    assert_eq!(place.files().len(), 4);
    let mut daemon = Running::start(&place);
    let _reachable = UnixStream::connect(place.path("run/vrdmad.sock")).unwrap();
    assert!(daemon.signal(Signal::TERM).success());
}

#[test]
fn clients_under_way_do_not_hold_up_the_end() {
    let place = Place::new(ADAPTERS);
    let mut daemon = Running::start(&place);
    let mut half = UnixStream::connect(place.path("run/vrdmad.sock")).unwrap();
    half.write_all(b"GET /v1/sta").unwrap();
    let _guest = UnixStream::connect(place.path("run/vm1.vfio-user")).unwrap();
    let _cable = UnixStream::connect(place.path("run/vm1.ethernet")).unwrap();
    assert!(daemon.signal(Signal::TERM).success());
}

#[test]
fn a_second_daemon_is_refused_and_changes_nothing() {
    let place = Place::new(ADAPTERS);
    let mut daemon = Running::start(&place);
    let sentence = refusal(&place.command().output().unwrap());
    assert!(
        sentence.contains("another vrdmad uses the run folder"),
        "{sentence}"
    );
    let other = Place::new(&format!("socket = {:?}\n", place.path("run/vrdmad.sock")));
    let sentence = refusal(&other.command().output().unwrap());
    assert!(
        sentence.contains("is in use by a running process"),
        "{sentence}"
    );
    assert_eq!(place.files().len(), 4);
    assert!(daemon.signal(Signal::TERM).success());
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let place = Place::new("[[adapter]]\nname = \"vm1\"\nportgroup = \"red\"\n");
    let sentence = refusal(&place.command().output().unwrap());
    assert!(
        sentence.contains("vrdmad.toml, line 5, key portgroup: there is no port group"),
        "{sentence}"
    );
    assert!(!place.path("run").exists());
}

#[test]
fn a_path_in_the_way_of_an_adapter_is_kept() {
    let place = Place::new(ADAPTERS);
    fs::create_dir(place.path("run")).unwrap();
    for file in ["vm1.ethernet", "vm1.vfio-user"] {
        fs::write(place.path("run").join(file), "precious").unwrap();
        let output = place.command().args(["--log", "off"]).output().unwrap();
        let sentence = refusal(&output);
        assert!(
            sentence.contains(file) && sentence.contains("is not a socket"),
            "{sentence}"
        );
        assert_eq!(place.files(), [file]);
        fs::remove_file(place.path("run").join(file)).unwrap();
    }
}

#[test]
fn a_check_changes_nothing() {
    let place = Place::new(ADAPTERS);
    let output = place.command().arg("--check").output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"the configuration is valid: 1 adapter\n");
    assert!(!place.path("run").exists());
}

#[test]
fn wrong_arguments_are_refused() {
    let place = Place::new("");
    let sentence = refusal(
        &place
            .command()
            .args(["--log", "vrdma=loud"])
            .output()
            .unwrap(),
    );
    assert!(sentence.starts_with("--log: "), "{sentence}");
    let unknown = place.command().arg("--verbose").output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn logs_go_to_standard_error_without_colours() {
    let place = Place::new("");
    let mut child = place
        .command()
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    assert!(
        line.contains("ready; control API at") && !line.contains('\u{1b}'),
        "{line}"
    );
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    let mut printed = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut printed)
        .unwrap();
    assert_eq!(printed, "");
}

fn limit_descriptors(child: &Child, limit: u64) -> Rlimit {
    let limit = Rlimit {
        current: Some(limit),
        maximum: Some(4096),
    };
    prlimit(Some(Pid::from_child(child)), Resource::Nofile, limit).unwrap()
}

/// The listener stays readable while no client can be accepted: the shard leaves it alone for a while instead of trying
/// without end.
#[test]
fn without_descriptors_a_client_waits_and_one_line_tells() {
    let place = Place::new("");
    let mut child = place.command().stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = |what: &str, lines: &mut std::io::Lines<BufReader<std::process::ChildStderr>>| {
        lines.any(|line| line.unwrap().contains(what))
    };
    assert!(line("ready", &mut lines));
    let before = limit_descriptors(&child, 3);
    assert_eq!(before.current, before.maximum, "raised at the start");
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        None,
    );
    let socket = socket.unwrap();
    let address = rustix::net::SocketAddrUnix::new(place.path("run/process.sock")).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    assert!(line("cannot be accepted", &mut lines));
    limit_descriptors(&child, 4096);
    rustix::net::send(&socket, &[1], rustix::net::SendFlags::empty()).unwrap();
    let (length, _) =
        rustix::net::recv(&socket, &mut [0u8; 8], rustix::net::RecvFlags::empty()).unwrap();
    assert_eq!(length, 0, "accepted, and hung up on for what it said");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let more = lines.filter(|line| line.as_ref().unwrap().contains("cannot be accepted"));
    assert!(more.count() < 10);
    assert!(child.wait().unwrap().success());
}

#[test]
fn without_descriptors_an_ethernet_card_waits_and_one_line_tells() {
    let place = Place::new(ADAPTERS);
    let mut child = place.command().stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let is = |what: &'static str| move |line: std::io::Result<String>| line.unwrap().contains(what);
    assert!(lines.any(is("ready")));
    limit_descriptors(&child, 3);
    let mut socket = UnixStream::connect(place.path("run/vm1.ethernet")).unwrap();
    assert!(lines.any(is("cannot take a connection")));
    limit_descriptors(&child, 4096);
    socket.write_all(&[0xff; 4]).unwrap();
    assert_eq!(socket.read(&mut [0; 8]).unwrap(), 0, "no such frame");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let more = lines.map(is("cannot take a connection")).filter(|it| *it);
    assert!(more.count() < 10);
    assert!(child.wait().unwrap().success());
}
