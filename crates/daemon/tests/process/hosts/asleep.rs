//! A thread that has nothing to do with traffic of an uplink is not woken by it.

use vrdma_lab::namespace::enter;

use super::transfer::Transfer;
use super::{Medium, World};
use crate::client::LONG;

/// Writes, each of many frames.
const WRITES: usize = 1000;

fn sleeps_on(medium: Medium) {
    let world = World::with_shards(medium, 2);
    let clients = world.clients();
    let mut transfer = Transfer::begin(&clients, LONG);
    transfer.go_on(20);
    let wakes = || world.daemons[1].switches_of("shard-1");
    let before = wakes();
    transfer.go_on(WRITES);
    let woken = wakes() - before;
    // The watchdog wakes it each second.
    assert!(woken < WRITES as u64 / 10, "{woken} times");
    transfer.end();
}

#[test]
fn a_shard_that_does_not_read_a_raw_uplink_sleeps_on() {
    if enter("hosts::asleep::a_shard_that_does_not_read_a_raw_uplink_sleeps_on") {
        sleeps_on(Medium::Raw);
    }
}

#[test]
fn a_shard_that_does_not_read_a_tunnel_sleeps_on() {
    if enter("hosts::asleep::a_shard_that_does_not_read_a_tunnel_sleeps_on") {
        sleeps_on(Medium::Tunnel);
    }
}
