use std::path::PathBuf;

use super::*;

fn entry(user: bool) -> Entry {
    Entry { holder: 7, user }
}

fn words(command: &Command) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
    words.join(" ")
}

#[test]
fn commands_are_entered_with_their_arguments_and_environment() {
    let mut command = Command::new("daemon");
    command.arg("--config").env("A", "b");
    let entered = entry(false).command(&command);
    assert_eq!(
        words(&entered),
        "nsenter --target 7 --net -- daemon --config"
    );
    assert_eq!(entered.get_envs().count(), 1);
    assert_eq!(
        words(&entry(true).command(&command)),
        "nsenter --target 7 --user --preserve-credentials --net -- daemon --config"
    );
}

fn namespace_of(process: u32) -> PathBuf {
    fs::read_link(format!("/proc/{process}/ns/net")).unwrap()
}

#[test]
fn a_namespace_ends_with_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let a = Namespace::create("a", folder.path(), Lifetime::Owned).unwrap();
    let b = a
        .create_beside("b", folder.path(), Lifetime::Owned)
        .unwrap();
    let spaces = [std::process::id(), a.process_id(), b.process_id()].map(namespace_of);
    assert!(spaces[0] != spaces[1] && spaces[1] != spaces[2] && spaces[0] != spaces[2]);
    let holder = a.process_id();
    drop(a);
    assert!(!is_inside(holder));
    assert!(is_inside(b.process_id()));
}

#[test]
fn a_command_of_ip_that_fails_is_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let a = Namespace::create("a", folder.path(), Lifetime::Owned).unwrap();
    a.entry().ip("link set lo up\n").unwrap();
    let error = a
        .entry()
        .ip("link set nothing up\n")
        .unwrap_err()
        .to_string();
    assert!(error.contains("nothing"), "{error}");
}
