//! What a put and its commit cost, in nanoseconds: `cargo run --release -p vrdma-keep --example put_commit`.

use std::hint::black_box;
use std::os::fd::AsFd;
use std::time::Instant;

use vrdma_keep::{Area, Capacity, LARGE_BYTES, SMALL_BYTES, Store};

const ROUNDS: u32 = 2_000_000;
const CAPACITY: Capacity = Capacity {
    small: 1000,
    large: 1000,
};

fn main() {
    for bytes in [32, 64, 128, SMALL_BYTES, 512, LARGE_BYTES] {
        for records in [1, 2] {
            println!("{records} of {bytes} bytes: {:.1} ns", cost(bytes, records));
        }
    }
}

/// Returns the cost of putting `records` records of `bytes` bytes each, and one commit.
fn cost(bytes: usize, records: u64) -> f64 {
    let area = Area::create(CAPACITY).expect("memory for the area");
    let mut store = Store::open(area.as_fd()).expect("an area").store;
    let content = vec![7; bytes];
    let slots: Vec<_> = (0..records)
        .map(|key| store.insert(1, key, &content).expect("room"))
        .collect();
    store.commit();
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for slot in &slots {
            store.put(*slot, black_box(&content)).expect("room");
        }
        store.commit();
    }
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}
