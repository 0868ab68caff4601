//! A QEMU that was started to receive a VM by QEMU's own migration, which leaves the adapter behind.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use super::upgrade::Daemon;

/// Variable with the path that the process below connects to.
const SOCKET: &str = "VRDMA_TEST_CONNECTS_TO";

/// Not a test: this program again, as the process that connects. The daemon sees its arguments.
#[test]
#[ignore = "the other process of a test"]
fn connects_until_its_input_ends() {
    if let Some(path) = std::env::var_os(SOCKET) {
        let _connection = UnixStream::connect(path).unwrap();
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    }
}

/// Returns what the log says when a process with this argument has connected.
fn said_of(argument: &str) -> String {
    let mut daemon = Daemon::start();
    let mut connects = Command::new(std::env::current_exe().unwrap());
    connects
        .args([
            "--ignored",
            "--exact",
            "incoming::connects_until_its_input_ends",
        ])
        .args(["--", argument])
        .env(SOCKET, daemon.place.path("run/vm1.vfio-user"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut connects = connects.spawn().unwrap();
    let line = daemon.hears("vrdma_shard::vm: ");
    let next = match line.starts_with("QEMU connected") {
        true if argument == "-incoming" => daemon.hears("vrdma_shard::vm: "),
        _ => line,
    };
    drop(connects.stdin.take());
    assert!(connects.wait().unwrap().success());
    next
}

#[test]
fn one_that_waits_for_a_vm_is_warned_of() {
    let said = said_of("-incoming");
    assert!(said.contains("waits for a VM (-incoming)"), "{said}");
    assert!(said.contains("use `vrdma migrate`"), "{said}");
}

#[test]
fn one_that_starts_its_vm_itself_is_not() {
    let said = said_of("-nodefaults");
    assert!(said.starts_with("QEMU connected"), "{said}");
}
