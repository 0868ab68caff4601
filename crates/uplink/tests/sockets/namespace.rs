//! Interfaces that tests use in their namespaces.

use std::process::Command;

use vrdma_lab::namespace::{shell, wait_for_carrier};

/// Returns the name of an interface of this host; every host has one.
pub(crate) fn some_interface() -> String {
    let output = Command::new("ip").args(["-o", "link"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let name = text.split(": ").nth(1).unwrap();
    name.split('@').next().unwrap().to_owned()
}

/// Makes two joined Ethernet interfaces, up, without IPv6 so that the host sends nothing unasked.
pub(crate) fn veth(a: &str, b: &str) {
    shell(&format!(
        "ip link add {a} type veth peer name {b}
         for end in {a} {b}; do
           echo 1 > /proc/sys/net/ipv6/conf/$end/disable_ipv6
           ip link set $end up
         done"
    ));
    wait_for_carrier(a);
    wait_for_carrier(b);
}
