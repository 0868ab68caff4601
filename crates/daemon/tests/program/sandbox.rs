//! What the daemon gives up, as reported by the kernel and by the daemon.

use std::fs;
use std::path::Path;
use std::process::Command;

use vrdma_api::{Protection, Status, paths};
use vrdma_api_client::{Client, Error};
use vrdma_lab::namespace::{enter, shell};

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

/// Returns the rest of the line that begins with a word, in a file of the daemon's `/proc` folder.
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

/// Checks how much of the host a service can reach, in tenths, as systemd judges it.
fn assert_exposed_less_than(tenths: u8, drop_ins: &[&str]) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    let root = tempfile::tempdir().unwrap();
    let units = root.path().join("etc/systemd/system");
    fs::create_dir_all(units.join("vrdmad.service.d")).unwrap();
    let unit = "vrdmad.service";
    fs::copy(sources.join(unit), units.join(unit)).unwrap();
    for name in drop_ins {
        fs::copy(
            sources.join(name),
            units.join("vrdmad.service.d").join(name),
        )
        .unwrap();
    }
    let judged = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", unit])
        .arg(format!("--threshold={tenths}"))
        .arg(format!("--root={}", root.path().display()))
        .output()
        .expect("systemd-analyze judges the unit: apt-get install systemd");
    let text = String::from_utf8_lossy(&judged.stdout);
    assert!(text.contains("Overall exposure level"), "{judged:?}");
    assert!(judged.status.success(), "{drop_ins:?}: {text}");
}

#[test]
fn the_unit_reaches_little_of_the_host() {
    assert_exposed_less_than(20, &[]);
    assert_exposed_less_than(25, &["interfaces.conf"]);
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

/// Capabilities that the daemon keeps if it is root: CAP_SYS_PTRACE.
const KEPT_BY_ROOT: &str = "0000000000080000";

#[test]
fn interfaces_are_opened_by_a_helper_and_the_daemon_has_no_rights() {
    if !enter("sandbox::interfaces_are_opened_by_a_helper_and_the_daemon_has_no_rights") {
        return;
    }
    shell("ip link add up0 type veth peer name up1; ip link set up0 up; ip link set up1 up");
    let uplink = "[[uplink]]\nname = \"first\"\nkind = \"raw\"\ninterface = \"up0\"\n";
    let tap =
        "[[adapter]]\nname = \"host0\"\nportgroup = \"blue\"\nkind = \"tap\"\nip = \"10.9.0.1\"\n";
    let (place, daemon) = start(&format!("{uplink}{ADAPTERS}{tap}"), &[]);
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        assert_eq!(fact(&daemon, "status", set), KEPT_BY_ROOT, "{set}");
    }
    let api = Client::new(place.path("run/vrdmad.sock")).unwrap();
    let add = |body: &str| {
        let answer = api.ask("POST".parse().unwrap(), "/v1/uplinks", body.to_owned());
        answer.map(|answer| answer.status)
    };
    let second = r#"{ "name": "second", "kind": "raw", "interface": "up1" }"#;
    assert_eq!(add(second).unwrap(), 201);
    let refused = add(r#"{ "name": "third", "kind": "raw", "interface": "lo" }"#);
    let Err(Error::Refused { sentence, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        sentence.contains("interface `lo` does not carry Ethernet frames"),
        "{sentence}"
    );
    shell("ip -o address show dev host0 | grep -q 10.9.0.1");
}

#[test]
fn without_a_sandbox_the_daemon_keeps_its_rights() {
    if !enter("sandbox::without_a_sandbox_the_daemon_keeps_its_rights") {
        return;
    }
    shell("ip link add up0 type veth peer name up1");
    let uplink = "[[uplink]]\nname = \"first\"\nkind = \"raw\"\ninterface = \"up0\"\n";
    let (_place, daemon) = start(&format!("sandbox = false\n{uplink}"), &[]);
    assert_eq!(
        fact(&daemon, "status", "CapEff:"),
        fact(&daemon, "status", "CapBnd:")
    );
}
