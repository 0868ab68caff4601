//! The cable between the test's own namespace and the other host's.

use std::process::Command;

use vrdma_lab::namespace::{Entry, carrying, shell, wait_for_carrier};

use super::INTERFACE;

/// Lays the cable and waits until both ends have a carrier.
pub(super) fn join(other: &Entry) {
    let id = other.id();
    shell(&format!(
        "ip link add {INTERFACE} type veth peer name {INTERFACE} netns {id}"
    ));
    shell(&plugged(1));
    shell_in(other, &plugged(2));
    wait_for_carrier(INTERFACE);
    shell_in(other, &carrying(INTERFACE));
}

fn plugged(number: u8) -> String {
    format!(
        "ip link set lo up
         ip link set {INTERFACE} addrgenmode none
         ip address add 192.0.2.{number}/24 dev {INTERFACE}
         ip link set {INTERFACE} up"
    )
}

fn shell_in(host: &Entry, line: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-ec", line]);
    let status = host.command(&shell).status().unwrap();
    assert!(status.success(), "{line}");
}
