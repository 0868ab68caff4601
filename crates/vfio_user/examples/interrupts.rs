//! Signals the eventfd of an interrupt again and again, so that `cargo xtask bench protection` can count the
//! instructions of one signal.
//!
//! `interrupts signal|write NUMBER`: as the daemon signals, or by bare writes.

use std::env::args;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::write;
use vrdma_vfio_user::{ClientFd, Closing, Eventfd, Signal};

fn main() {
    let way = args().nth(1).expect("signal or write");
    let number = args().nth(2).and_then(|number| number.parse().ok());
    let number: u64 = number.expect("a number of interrupts");
    let fd = eventfd(0, EventfdFlags::NONBLOCK).expect("there are eventfds");
    match way.as_str() {
        "signal" => {
            let fd = ClientFd::new(fd, Closing::by(drop));
            let interrupt = Eventfd::adopt(fd).expect("it is an eventfd");
            for _ in 0..number {
                interrupt.signal().expect("its counter is far from full");
            }
        }
        "write" => {
            for _ in 0..number {
                write(&fd, &1u64.to_ne_bytes()).expect("its counter is far from full");
            }
        }
        other => panic!("{other} is neither signal nor write"),
    }
}
