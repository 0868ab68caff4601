//! The cable is pulled out in the middle of a transfer.

use std::thread;

use vrdma_lab::namespace::{enter, shell, wait_for_carrier};

use super::transfer::Transfer;
use super::{INTERFACE, Medium, World};
use crate::client::{LONG, SHORT};
use crate::{RETRY_EXC_ERR, WR_FLUSH_ERR};

/// Reasons that the uplinks count for frames lost to a pulled cable.
const LOST: [&str; 2] = ["down", "refused"];

fn pull() {
    shell(&format!("ip link set {INTERFACE} down"));
}

fn plug() {
    shell(&format!("ip link set {INTERFACE} up"));
    wait_for_carrier(INTERFACE);
}

fn lost(world: &World) -> u64 {
    let drops = world.daemons[0].roce().drops;
    LOST.iter().filter_map(|reason| drops.get(*reason)).sum()
}

fn survives(medium: Medium) {
    let world = World::new(medium);
    let clients = world.clients();
    let mut transfer = Transfer::begin(&clients, LONG);
    for _ in 0..3 {
        transfer.go_on(20);
        let before = lost(&world);
        let puller = thread::spawn(pull);
        transfer.until(|_| lost(&world) > before);
        puller.join().unwrap();
        plug();
    }
    transfer.go_on(20);
    transfer.end();
}

#[test]
fn a_cable_that_comes_back_in_time_is_not_missed() {
    if enter("hosts::flap::a_cable_that_comes_back_in_time_is_not_missed") {
        survives(Medium::Raw);
    }
}

#[test]
fn a_path_of_a_tunnel_that_comes_back_in_time_is_not_missed() {
    if enter("hosts::flap::a_path_of_a_tunnel_that_comes_back_in_time_is_not_missed") {
        survives(Medium::Tunnel);
    }
}

#[test]
fn a_cable_that_stays_away_ends_the_connection() {
    if !enter("hosts::flap::a_cable_that_stays_away_ends_the_connection") {
        return;
    }
    let world = World::new(Medium::Raw);
    let clients = world.clients();
    let mut transfer = Transfer::begin(&clients, SHORT);
    transfer.go_on(20);
    pull();
    let (status, behind) = transfer.fail();
    assert_eq!(status, RETRY_EXC_ERR);
    let flushed = |status: &u32| *status == WR_FLUSH_ERR;
    assert!(behind.iter().all(flushed), "{behind:?}");
    plug();
    let mut again = Transfer::begin(&clients, LONG);
    again.go_on(20);
    again.end();
}
