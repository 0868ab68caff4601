//! Reruns tests that need a network of their own, also without root: a test runs once more, as the only one of its
//! program, in fresh namespaces.
//!
//! ```text
//!   cargo test --> test: enter() --unshare--> the same program, this test only: enter() is true
//!                            <-- outcome ---/
//! ```

use std::env;
use std::process::Command;

const INSIDE: &str = "VRDMA_TEST_NAMESPACE";

/// Most looks for a carrier, 10 ms apart; a kernel needs few.
const CARRIER_LOOKS: u32 = 1000;

/// Runs a test, named with its modules, again inside of user and network namespaces of its own. There it is root and
/// has no interface but loopback, which is up, and this returns `true`. Outside, this checks the outcome and returns
/// `false`.
///
/// # Panics
/// When the test fails inside.
#[must_use]
pub fn enter(test: &str) -> bool {
    let inside = enter_with(test, &["--user", "--map-root-user", "--net"]);
    if inside {
        shell("ip link set lo up");
    }
    inside
}

/// The same with this host's network, to which the test then has no rights.
///
/// # Panics
/// As [`enter`].
#[must_use]
pub fn enter_without_network(test: &str) -> bool {
    enter_with(test, &["--user", "--map-root-user"])
}

fn enter_with(test: &str, namespaces: &[&str]) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let program = env::current_exe().expect("a test knows its program");
    let output = Command::new("unshare")
        .args(namespaces)
        .arg("--")
        .arg(program)
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

/// Runs a command line for a test, which must succeed.
///
/// # Panics
/// When the command fails.
pub fn shell(line: &str) {
    let status = Command::new("sh").args(["-ec", line]).status();
    assert!(status.is_ok_and(|status| status.success()), "{line}");
}

/// Waits until an interface that was set up has a carrier: before that its queue silently drops frames.
///
/// # Panics
/// When none comes.
pub fn wait_for_carrier(interface: &str) {
    shell(&carrying(interface));
}

/// The shell commands for [`wait_for_carrier`]. The last one waits for the lock under which the kernel opens the queue.
#[must_use]
pub fn carrying(interface: &str) -> String {
    format!(
        "for i in $(seq {CARRIER_LOOKS}); do
           ip -o link show dev {interface} | grep -q 'state UP' && break
           sleep 0.01
         done
         ip -o link show dev {interface} | grep -q 'state UP'
         ip link set dev {interface} alias settled"
    )
}
