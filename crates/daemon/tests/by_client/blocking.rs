//! Clients whose interrupts would make the shard wait: they lose their connections, and others are served.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::write;

use crate::daemon::{Daemon, PATIENCE, adapters};
use crate::vmm::Vmm;

/// Gives the device an interrupt that blocks afterwards, and is full.
fn blocking(vmm: &mut Vmm) -> OwnedFd {
    let interrupt = eventfd(0, EventfdFlags::empty()).unwrap();
    vmm.wire(&interrupt);
    fcntl_setfl(&interrupt, OFlags::empty()).unwrap();
    write(&interrupt, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    interrupt
}

/// Waits until the daemon lets the client in.
fn come_again(daemon: &Daemon) -> Vmm {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(vmm) = Vmm::try_connect(&daemon.socket(1)) {
            return vmm;
        }
        assert!(Instant::now() < deadline, "it is refused for ever");
        std::thread::yield_now();
    }
}

#[test]
fn memory_that_is_no_file_in_memory_is_not_touched() {
    let mut daemon = Daemon::start("", &adapters(&[(1, false)]));
    let mut vmm = Vmm::connect(&daemon.socket(1));
    vmm.map(&File::open("/proc/self/mem").unwrap(), 4096);
    daemon.await_line("is a file that is not in memory");
    vmm.reset();
}

fn assert_blocks_itself_alone(options: &str) {
    let mut daemon = Daemon::start(options, &adapters(&[(1, false), (2, false)]));
    let mut neighbour = Vmm::connect(&daemon.socket(2));
    let mut villain = Vmm::connect(&daemon.socket(1));
    for _ in 0..2 {
        let _interrupt = blocking(&mut villain);
        villain.say_trigger();
        neighbour.reset();
        villain.await_end();
        daemon.await_line("made an interrupt of its adapter wait");
        villain = come_again(&daemon);
        neighbour.reset();
    }
}

#[test]
fn who_makes_its_interrupts_block_is_disconnected_and_its_neighbour_served() {
    assert_blocks_itself_alone("shards = 1\n");
}

#[test]
fn a_kept_connection_ends_by_the_same() {
    assert_blocks_itself_alone("shards = 1\nsupervise = true\n");
}
