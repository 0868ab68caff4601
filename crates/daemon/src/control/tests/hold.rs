//! Adapters that live as long as a connection.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::json;
use vrdma_api_client::Error;

use super::with_blue;

#[test]
fn a_held_adapter_goes_with_whoever_holds_it() {
    let daemon = with_blue();
    let request = json!({ "name": "run-1", "portgroup": "blue", "kind": "process" });
    assert_eq!(daemon.post("/v1/adapters", &request).0, 201);
    let client = daemon.client();
    let holder = client.hold(&"run-1".parse().unwrap()).unwrap();
    let child = holder.try_clone().unwrap();
    drop(holder);
    assert_eq!(daemon.ask("GET", "/v1/adapters/run-1", "").0, 200);
    drop(child);
    let begun = Instant::now();
    while daemon.ask("GET", "/v1/adapters/run-1", "").0 == 200 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it stays");
    }
}

#[test]
fn nobody_holds_an_adapter_that_is_not_there() {
    let daemon = with_blue();
    let refused = daemon.client().hold(&"run-1".parse().unwrap()).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { status: 404, sentence } if sentence.contains("run-1")),
        "{refused:?}"
    );
}

#[test]
fn a_daemon_that_stops_waits_for_no_holder() {
    let daemon = with_blue();
    let request = json!({ "name": "run-1", "portgroup": "blue", "kind": "process" });
    assert_eq!(daemon.post("/v1/adapters", &request).0, 201);
    let mut held = daemon.client().hold(&"run-1".parse().unwrap()).unwrap();
    held.set_nonblocking(false).unwrap();
    drop(daemon);
    let mut rest = Vec::new();
    held.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "the body ends in order");
}
