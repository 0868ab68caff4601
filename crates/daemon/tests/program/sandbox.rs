//! What the daemon gives up, as the kernel and the daemon tell.

use std::fs;

use vrdma_api::{Protection, Status, paths};
use vrdma_api_client::Client;

use super::{ADAPTERS, Place, Running, Supervisor};

fn start(config: &str, arguments: &[&str]) -> (Place, Running) {
    let place = Place::new(config);
    let mut command = place.command();
    command.args(arguments);
    let daemon = Running::start_under(&Supervisor::new(&place), command, &place);
    (place, daemon)
}

fn protections(place: &Place) -> Vec<Protection> {
    let api = Client::new(place.path("run/vrdmad.sock")).unwrap();
    api.get::<Status>(paths::STATUS).unwrap().protections
}

fn is_in_force(place: &Place, name: &str) -> bool {
    let all = protections(place);
    let found = all.iter().find(|protection| protection.name == name);
    found.unwrap().in_force
}

/// What follows a word at the beginning of a line of a file in the daemon's `/proc` folder.
fn fact(daemon: &Running, file: &str, word: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/{file}", daemon.0.id())).unwrap();
    let fact = text.lines().find_map(|line| line.strip_prefix(word));
    fact.unwrap().trim().to_owned()
}

#[test]
fn a_daemon_has_given_up_what_it_does_not_need() {
    let (place, daemon) = start(ADAPTERS, &[]);
    assert_eq!(fact(&daemon, "status", "NoNewPrivs:"), "1");
    let core = fact(&daemon, "limits", "Max core file size");
    assert_eq!(core.split_whitespace().next(), Some("0"));
    for protection in protections(&place) {
        assert!(protection.in_force, "{protection:?}");
    }
}

#[test]
fn without_a_sandbox_it_says_so() {
    let (place, daemon) = start(&format!("sandbox = false\n{ADAPTERS}"), &["--core-dumps"]);
    assert_eq!(fact(&daemon, "status", "NoNewPrivs:"), "0");
    for protection in protections(&place) {
        assert!(!protection.in_force, "{protection:?}");
    }
    drop(daemon);
    let (place, daemon) = start(ADAPTERS, &["--core-dumps"]);
    assert_eq!(fact(&daemon, "status", "NoNewPrivs:"), "1");
    assert!(!is_in_force(&place, "core dumps"));
    assert!(is_in_force(&place, "new privileges"));
}
