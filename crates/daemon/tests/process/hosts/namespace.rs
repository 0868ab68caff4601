//! A network namespace for each test, also without root, and a second one that a cable leads to.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::INTERFACE;

const INSIDE: &str = "VRDMA_TEST_NAMESPACE";

/// Runs a test again inside of user and network namespaces of its own. `true` in there; outside the
/// outcome is checked and `false` comes back.
pub(super) fn enter(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare (util-linux) starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test} in its namespace: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
    );
    false
}

/// Another namespace, which ends with its value.
pub(super) struct Other(Child);

impl Other {
    pub(super) fn new() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo inside; read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut words = BufReader::new(holder.stdout.take().unwrap());
        words.read_line(&mut line).unwrap();
        assert_eq!(line, "inside\n");
        Self(holder)
    }

    /// The way in.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let target = self.0.id().to_string();
        command.args(["--target", &target, "--net", "--", program]);
        command
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command line that must succeed.
pub(super) fn shell(line: &str) {
    run(Command::new("sh").args(["-ec", line]));
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}");
}

/// Lays the cable and waits until both ends carry.
pub(super) fn join(other: &Other) {
    let target = other.0.id();
    shell(&format!(
        "ip link add {INTERFACE} type veth peer name {INTERFACE} netns {target}"
    ));
    let line = |number| {
        format!(
            "ip link set lo up
             ip link set {INTERFACE} addrgenmode none
             ip address add 192.0.2.{number}/24 dev {INTERFACE}
             ip link set {INTERFACE} up"
        )
    };
    shell(&line(1));
    run(other.command("sh").args(["-ec", &line(2)]));
    settle();
    run(other.command("sh").args(["-ec", &carrying()]));
}

/// Waits until our end carries: before that its queue swallows frames without a word.
pub(super) fn settle() {
    shell(&carrying());
}

/// The last command waits for the lock under which the kernel opens the queue.
fn carrying() -> String {
    format!(
        "for i in $(seq 1000); do
           ip -o link show dev {INTERFACE} | grep -q 'state UP' && break
           sleep 0.01
         done
         ip -o link show dev {INTERFACE} | grep -q 'state UP'
         ip link set dev {INTERFACE} alias settled"
    )
}
