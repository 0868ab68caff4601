use std::fs;

use super::*;
use crate::namespace::Namespace;
use crate::process::Lifetime;

const LIMIT: Duration = Duration::from_secs(30);

fn shell(words: &str) -> std::process::Command {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", words]);
    shell
}

#[test]
fn clients_start_when_servers_are_ready() {
    let folder = tempfile::tempdir().unwrap();
    let here = Local::new(folder.path(), shell);
    let mark = folder.path().join("ready");
    let server = format!("sleep 0.3; : > {0}; exec sleep 60", mark.display());
    let client = format!("ls {} && echo no >&2; exit 3", mark.display());
    let outcome = run([&here; 2], &server, &client, LIMIT).unwrap();
    assert_eq!((outcome.server.status, outcome.client.status), (137, 3));
    assert!(outcome.client.stdout_text().ends_with("ready\nno\n"));
}

#[test]
fn a_server_may_show_elsewhere_that_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ready");
    let shown = mark.clone();
    // Another server offers its service all the time.
    let here = Local::new(folder.path(), shell).offering(move || 1 + u32::from(shown.exists()));
    // The server never sleeps, so no other sign would let the client start soon.
    let came = folder.path().join("came");
    let (ready, came) = (mark.display(), came.display());
    let server = format!("sleep 0.3; : > {ready}; until [ -e {came} ]; do :; done");
    let client = format!("ls {ready} && : > {came}");
    let outcome = run([&here; 2], &server, &client, LIMIT).unwrap();
    assert_eq!(outcome.client.status, 0);
}

#[test]
fn a_client_that_came_too_early_comes_again() {
    for said in [
        "Event: RDMA_CM_EVENT_REJECTED; error: 8.",
        "connect() failed: Connection refused",
        "unexpected event from RDMA CM: Event rejected",
    ] {
        comes_again(said);
    }
}

fn comes_again(said: &str) {
    let folder = tempfile::tempdir().unwrap();
    let here = Local::new(folder.path(), shell);
    let came = folder.path().join("came");
    let client = |lucky: u32| {
        let came = came.display();
        format!("echo >> {came}; test $(wc -l < {came}) = {lucky} && exit 0; echo '{said}'; exit 1")
    };
    let come = |client: &str| run([&here; 2], "true", client, LIMIT).unwrap();
    assert_eq!(come(&client(EARLY_LIMIT + 1)).client.status, 0);
    assert_eq!(
        come(&client(1)).client.status,
        1,
        "it does not come for ever"
    );
    let times = fs::read_to_string(&came).unwrap().lines().count();
    assert_eq!(times as u32, 2 * (EARLY_LIMIT + 1));
}

#[test]
fn a_server_that_fails_first_is_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let here = Local::new(folder.path(), shell);
    let error = run([&here; 2], "echo no; exit 3", "true", LIMIT).unwrap_err();
    assert!(error.to_string().contains("status 3"), "{error}");
    assert!(error.to_string().ends_with("no\n"), "{error}");
}

#[test]
fn a_client_that_hangs_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let here = Local::new(folder.path(), shell);
    let hang = here.start("echo here; exec sleep 60").unwrap();
    let error = hang.end(Duration::from_millis(300)).unwrap_err();
    assert!(error.to_string().ends_with("here\n"), "{error}");
}

#[test]
fn listeners_of_other_namespaces_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let space = Namespace::create("space", folder.path(), Lifetime::Owned).unwrap();
    space.entry().ip("link set lo up\n").unwrap();
    let entry = space.entry().clone();
    let there = Local::new(folder.path(), move |words| entry.command(&shell(words)));
    // The server is ready when it listens, long before it is quiet.
    let listener = "import socket,time\n\
        s=socket.create_server(('127.0.0.1',0))\n\
        end=time.time()+3\n\
        while time.time()<end: pass";
    fs::write(folder.path().join("listener.py"), listener).unwrap();
    let command = format!("exec python3 {}/listener.py", folder.path().display());
    let server = there.start(&command).unwrap();
    server.wait_ready().unwrap();
    assert_eq!(server.status(), None);
}
