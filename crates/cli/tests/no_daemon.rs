//! The program without a daemon: what it says of the absent daemon, and of arguments that are wrong before any daemon
//! is asked.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn vrdma(socket: &Path, arguments: &[impl AsRef<OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vrdma"));
    command
        .args(arguments)
        .env("VRDMA_CONTROL", socket)
        .env("VRDMA_SOCKET", "/nonexistent")
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn an_absent_daemon_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let output = vrdma(&socket, &["status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("does not exist; start vrdmad"),
        "{}",
        stderr(&output)
    );
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(stderr(&vrdma(&socket, &["status"])).contains("nobody listens"));
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert!(stderr(&vrdma(&folder.path().join("file"), &["status"])).contains("no daemon"));
}

#[test]
fn wrong_arguments_say_what_is_right() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["portgroup", "add", "Blue"],
            "use 1 to 32 of the characters",
        ),
        (
            &["portgroup", "add", "blue", "--vlan", "4095"],
            "use a number from 1 to 4094",
        ),
        (&["adapter", "add", "a"], "--portgroup"),
        (
            &["adapter", "add", "a", "--portgroup", "b", "--mac", "1"],
            "six two-digit hexadecimal numbers",
        ),
        (
            &[
                "adapter",
                "add",
                "a",
                "--portgroup",
                "b",
                "--doorbells",
                "x",
            ],
            "\"mapped\" or \"trapped\"",
        ),
        (
            &["adapter", "qemu-args", "a", "--memory", "2"],
            "write a number and K, M, G or T",
        ),
        (
            &[
                "adapter",
                "qemu-args",
                "a",
                "--without-memory",
                "--memory",
                "2G",
            ],
            "cannot be used with",
        ),
    ];
    for (arguments, sentence) in cases {
        let output = vrdma(Path::new("/nonexistent"), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            stderr(&output).contains(sentence),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn doctor_without_a_daemon_fails_and_says_so_as_json() {
    let output = vrdma(
        Path::new("/nonexistent"),
        &["doctor", "--qemu", "/nonexistent", "--json"],
    );
    assert_eq!(output.status.code(), Some(1));
    let checks: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let failed = checks
        .iter()
        .filter(|check| check["verdict"] == "fail")
        .map(|check| check["name"].as_str().unwrap());
    assert_eq!(failed.collect::<Vec<_>>(), ["daemon", "programs", "QEMU"]);
}
