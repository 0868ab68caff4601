//! So many 64-byte WRITEs from one device to another, one after the other: for counting instructions.
//!
//! `cargo xtask bench instructions` runs it under valgrind with two numbers, and divides the difference.

use std::time::Instant;

use vrdma_driver::work::SendWork;
use vrdma_driver::{End, Pair, PairOptions};
use vrdma_verbs::Time;

const BYTES: u32 = 64;

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let count: u64 = count.expect("the first argument says how many");
    let mut pair = Pair::with(PairOptions::default());
    let (addr, rkey) = pair.b.remote(0);
    let request = SendWork::write(1, addr, rkey).sge(pair.a.sge(0, BYTES));
    let End {
        guest,
        ref qp,
        ref send_cq,
        ..
    } = pair.a;
    let fabric = &mut pair.fabric;
    fabric.pump();
    let start = Instant::now();
    for _ in 0..count {
        fabric
            .clock()
            .reach(Time(start.elapsed().as_nanos() as u64));
        let posted = fabric[guest].post_send(qp, &request);
        posted.expect("the one before is done");
        while fabric[guest].peek_entry(send_cq).is_none() {
            fabric.turn();
        }
    }
}
