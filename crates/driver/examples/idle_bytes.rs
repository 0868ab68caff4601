//! Measures how much of the daemon's memory an idle, connected queue pair holds.
//!
//! Question: less than 4 KiB, the target of the house plan? Only memory that the device and its engine keep allocated
//! is counted: rings and buffers belong to the guest.
//!
//! Limit: the page list alone is 8 bytes for each page of the rings.
//!
//! `cargo run --release -p vrdma-driver --example idle_bytes`, prints JSON.

use std::alloc::System;

use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use vrdma_driver::object::{Connection, QpShape};
use vrdma_driver::{Fabric, PairOptions};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const QUEUE_PAIRS: usize = 2000;

/// Bytes that each of many queue pairs of a shape leaves allocated.
fn bytes_each(shape: QpShape) -> f64 {
    let mut fabric = Fabric::new();
    let guest = fabric.add();
    let end = fabric.end(guest, PairOptions::default());
    let gid = fabric[guest].gid();
    let region = Region::new(ALLOCATOR);
    for _ in 0..QUEUE_PAIRS {
        let vm = &mut fabric[guest];
        let cqs = (&end.send_cq, &end.recv_cq);
        // The driver's half is dropped at once: its memory is not the daemon's.
        let qp = vm
            .create_qp(end.pd, cqs, None, shape)
            .expect("room for the queue pairs");
        let connection = Connection::to(qp.qpn, gid);
        vm.connect(&qp, &connection)
            .expect("a fresh queue pair connects");
    }
    fabric.pump();
    let change = region.change();
    (change.bytes_allocated as f64 - change.bytes_deallocated as f64) / QUEUE_PAIRS as f64
}

fn main() {
    let shapes = [
        ("64 requests, 4 buffers each", QpShape::RC),
        (
            "512 requests, 1 buffer each",
            QpShape {
                send_wr: 512,
                recv_wr: 512,
                send_sge: 1,
                recv_sge: 1,
                ..QpShape::RC
            },
        ),
    ];
    let results = shapes.map(|(name, shape)| {
        json!({
            "name": name,
            "unit": "bytes/queue pair",
            "median": bytes_each(shape).round(),
        })
    });
    let report = json!({
        "benchmark": "idle_bytes",
        "settings": { "queue_pairs": QUEUE_PAIRS },
        "target": 4096,
        "results": results,
    });
    println!("{report:#}");
}
