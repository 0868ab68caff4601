use super::*;

const LONG: Duration = Duration::from_secs(30);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn exists(process: u32) -> bool {
    // A killed grandchild may stay a zombie for as long as its adopter likes.
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("State:") && !line.contains('Z'))
}

fn wait_until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !what() {
        assert!(Instant::now() < deadline, "it never happened");
        thread::sleep(POLL);
    }
}

#[test]
fn output_and_environment_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = shell("echo \"$WHAT\"; echo err >&2; exit 4");
    command.env("WHAT", "out");
    let mut child = Supervised::spawn(&command, Some(&log), Lifetime::Owned).unwrap();
    assert_eq!(child.wait_for_exit(LONG).unwrap().unwrap().code(), Some(4));
    assert_eq!(std::fs::read_to_string(log).unwrap(), "out\nerr\n");
}

#[test]
fn dropping_kills_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = shell("sleep 1000 & echo $!; wait");
    let child = Supervised::spawn(&command, Some(&log), Lifetime::Owned).unwrap();
    let grandchild = || {
        std::fs::read_to_string(&log)
            .unwrap()
            .trim()
            .parse::<u32>()
            .ok()
    };
    wait_until(|| grandchild().is_some());
    drop(child);
    let grandchild = grandchild().unwrap();
    wait_until(|| !exists(grandchild));
}

#[test]
fn a_child_and_its_own_die_with_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let grandchild = || std::fs::read_to_string(&log).ok()?.trim().parse().ok();
    let mut watched = watched(&shell("sleep 1000 & echo $!; wait"));
    let mut child = watched.stdout(File::create(&log).unwrap()).spawn().unwrap();
    wait_until(|| grandchild().is_some());
    assert!(child.try_wait().unwrap().is_none());
    // The end of the owner, as the watcher sees it.
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success());
    wait_until(|| !exists(grandchild().unwrap()));
}

#[test]
fn a_kept_child_stays() {
    let child = Supervised::spawn(&shell("exec sleep 1000"), None, Lifetime::Kept).unwrap();
    let process = child.id();
    drop(child);
    assert!(exists(process));
    signal_group(process, Signal::KILL);
}

#[test]
fn stopping_is_polite_first() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done");
    let mut child = Supervised::spawn(&command, Some(&log), Lifetime::Owned).unwrap();
    wait_until(|| std::fs::read_to_string(&log).unwrap().contains("up"));
    child.stop(LONG);
    assert!(std::fs::read_to_string(log).unwrap().ends_with("bye\n"));
}
