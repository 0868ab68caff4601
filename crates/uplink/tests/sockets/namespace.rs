//! A network namespace for each test, also without root.

use std::process::Command;

const INSIDE: &str = "VRDMA_TEST_NAMESPACE";

/// Runs a test again inside of user and network namespaces of its own, where it is root and has no
/// interface but loopback. `true` in there; outside the outcome is checked and `false` comes back.
pub(crate) fn enter(test: &str) -> bool {
    let inside = enter_with(test, &["--user", "--map-root-user", "--net"]);
    if inside {
        shell("ip link set lo up");
    }
    inside
}

/// The same with this host's network, on which the test then has no rights.
pub(crate) fn enter_without_network(test: &str) -> bool {
    enter_with(test, &["--user", "--map-root-user"])
}

fn enter_with(test: &str, namespaces: &[&str]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
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

/// An interface of this host; every host has one.
pub(crate) fn some_interface() -> String {
    let output = Command::new("ip").args(["-o", "link"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let name = text.split(": ").nth(1).unwrap();
    name.split('@').next().unwrap().to_owned()
}

/// Runs a command line that must succeed.
pub(crate) fn shell(line: &str) {
    let status = Command::new("sh").args(["-ec", line]).status().unwrap();
    assert!(status.success(), "{line}");
}

/// Two joined Ethernet interfaces, up, with IPv6 silent so that nobody speaks unasked.
pub(crate) fn veth(a: &str, b: &str) {
    shell(&format!(
        "ip link add {a} type veth peer name {b}
         for end in {a} {b}; do
           echo 1 > /proc/sys/net/ipv6/conf/$end/disable_ipv6
           ip link set $end up
         done"
    ));
    settle(a);
    settle(b);
}

/// Waits until an interface that was set up has a carrier: before that its queue swallows frames
/// without a word. The second command waits for the lock under which the kernel opens the queue.
pub(crate) fn settle(interface: &str) {
    shell(&format!(
        "for i in $(seq 1000); do
           ip -o link show dev {interface} | grep -q 'state UP' && break
           sleep 0.01
         done
         ip -o link show dev {interface} | grep -q 'state UP'
         ip link set dev {interface} alias settled"
    ));
}
