//! `vrdma adapter show --state` against a daemon that gives one answer.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::thread;

const STATE: &str = r#"{"name":"vm1","rdma":{"guest_connected":false,"state":"reset","gids":[],"objects":{"uc":0,"pd":0,"mr":0,"cq":0,"qp":0,"srq":0},"counters":{"tx_messages":0,"tx_bytes":0,"rx_messages":0,"rx_bytes":0,"retries":0,"naks_sent":0,"naks_received":0,"drops":{}}},"qps":[],"cqs":[],"srqs":[],"mrs":[]}"#;

#[test]
fn the_state_of_an_adapter_is_asked_for_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let daemon = thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut asked = String::new();
        stream.read_line(&mut asked).unwrap();
        let length = STATE.len();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        write!(stream.get_mut(), "{head}{STATE}").unwrap();
        asked
    });
    let output = Command::new(env!("CARGO_BIN_EXE_vrdma"))
        .args(["adapter", "show", "vm1", "--state"])
        .env("VRDMA_CONTROL", &socket)
        .output()
        .unwrap();
    let asked = daemon.join().unwrap();
    assert!(asked.starts_with("GET /v1/adapters/vm1/state "), "{asked}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("no queue pairs"), "{told}");
}
