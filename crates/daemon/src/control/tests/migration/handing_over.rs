//! Contexts that another daemon brings, over real connections.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use vrdma_api::{Destination, HandOverRequest, Ticket};
use vrdma_uplink::Keys;

use super::*;
use crate::handover;

const OWN: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];

fn key(digits: &str) -> String {
    digits.repeat(32)
}

fn listening() -> Daemon {
    with_adapter(Daemon::listening(&key("5a")))
}

fn expect(daemon: &Daemon) -> Destination {
    let (status, expected) = daemon.post("/v1/adapters/vm1/expect", &Value::Null);
    assert_eq!(status, 200, "{expected}");
    serde_json::from_value(expected).unwrap()
}

/// Delivers a context as the source's daemon does.
fn deliver(to: Destination, context: &[u8]) -> Result<ArrivedContext, String> {
    let keys: Keys = key("5a").parse().unwrap();
    let name = "vm1".parse().unwrap();
    runtime().block_on(handover::deliver(&keys, &name, to, context))
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// Asks a destination as a daemon with that key does, and returns what it answers.
fn reach(digits: &str, to: Destination) -> Result<(), String> {
    let source = with_adapter(Daemon::listening(&key(digits)));
    let body = serde_json::to_value(to).unwrap();
    match source.post("/v1/adapters/vm1/reach", &body) {
        (204, _) => Ok(()),
        (409, answer) => Err(answer["error"].as_str().unwrap().to_owned()),
        other => panic!("{other:?}"),
    }
}

fn has_context(daemon: &Daemon) -> bool {
    let (status, sentence) = daemon.refused("GET", "/v1/adapters/vm1/context", "");
    assert_eq!(status, 409);
    !sentence.starts_with("no context has come")
}

#[test]
fn a_context_that_is_expected_is_kept_once() {
    let daemon = listening();
    let to = expect(&daemon);
    assert_eq!(reach("5a", to), Ok(()));
    assert!(!has_context(&daemon));
    let arrived = deliver(to, &context(OWN)).unwrap();
    assert_eq!((arrived.records, arrived.restored), (1, false));
    assert!(has_context(&daemon));
    let again = deliver(to, &context(OWN)).unwrap_err();
    assert!(
        again.contains("it expects no context of adapter vm1"),
        "{again}"
    );
}

#[test]
fn a_ticket_is_void_when_nobody_waits_any_more() {
    let daemon = listening();
    let first = expect(&daemon);
    let second = expect(&daemon);
    assert!(deliver(first, &context(OWN)).is_err());
    let (status, _) = daemon.ask("DELETE", "/v1/adapters/vm1/context", "");
    assert_eq!(status, 204);
    assert!(deliver(second, &context(OWN)).is_err());
    let guessed = Destination {
        ticket: Ticket::new(0),
        ..second
    };
    assert!(deliver(guessed, &context(OWN)).is_err());
    assert!(!has_context(&daemon));
}

#[test]
fn what_is_no_context_of_the_adapter_is_refused() {
    let daemon = listening();
    let to = expect(&daemon);
    for (bytes, sentence) in [
        (context([2; 6]), "give both the same"),
        (vec![7; 200_000], "not the context of an adapter"),
    ] {
        let refused = deliver(to, &bytes).unwrap_err();
        assert!(refused.contains(sentence), "{refused}");
        assert!(!has_context(&daemon));
    }
    deliver(to, &context(OWN)).unwrap();
}

#[test]
fn who_cannot_be_handed_over_to_is_told_before_anything_begins() {
    let daemon = listening();
    let to = expect(&daemon);
    let other_key = reach("5b", to).unwrap_err();
    assert!(
        other_key.contains("give both daemons the same"),
        "{other_key}"
    );
    let at = |address: SocketAddr| Destination { address, ..to };
    let nobody = {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        closed.local_addr().unwrap()
    };
    let refused = reach("5a", at(nobody)).unwrap_err();
    assert!(refused.contains("nobody listens there"), "{refused}");
    for greeting in [&b"\0\x09220 smtp\n"[..], b"SSH-2.0-OpenSSH_9.7\r\n"] {
        let (address, greets) = stranger(greeting);
        let refused = reach("5a", at(address)).unwrap_err();
        assert!(refused.contains("no vrdmad that listens"), "{refused}");
        greets.join().unwrap();
    }
}

/// A listener that is not a daemon, for one connection.
fn stranger(greeting: &'static [u8]) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let greets = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(greeting).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // Waits until the other end closes. Closing first, with bytes unread, would take back the greeting.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    (address, greets)
}

#[test]
fn a_daemon_without_the_table_says_so() {
    let daemon = daemon();
    let to = Destination {
        address: "192.0.2.1:4793".parse().unwrap(),
        ticket: Ticket::new(1),
    };
    let request = HandOverRequest {
        to,
        leaves_pages: false,
    };
    for (action, body) in [
        ("expect", Value::Null),
        ("reach", serde_json::to_value(to).unwrap()),
        ("hand-over", serde_json::to_value(request).unwrap()),
    ] {
        let path = format!("/v1/adapters/vm1/{action}");
        let (status, sentence) = daemon.refused("POST", &path, &body.to_string());
        assert_eq!(status, 409);
        assert!(sentence.contains("[migration]"), "{sentence}");
    }
}

#[test]
fn connections_without_a_key_keep_nobody_out() {
    let daemon = listening();
    let to = expect(&daemon);
    let silent = |_| TcpStream::connect(to.address).unwrap();
    let mut silent: Vec<TcpStream> = (0..200).map(silent).collect();
    deliver(to, &context(OWN)).unwrap();
    // Long before the limit on the first frame.
    for stream in &mut silent[..100] {
        stream
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it was given up");
    }
}

#[test]
fn a_frozen_adapter_needs_a_vm() {
    let daemon = listening();
    let request = HandOverRequest {
        to: expect(&daemon),
        leaves_pages: false,
    };
    let body = serde_json::to_string(&request).unwrap();
    let (status, _) = daemon.refused("POST", "/v1/adapters/vm1/hand-over", &body);
    assert_eq!(status, 409);
    assert!(!has_context(&daemon));
}
