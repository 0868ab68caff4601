//! Measures the steps of handing over a device with many memory regions.
//!
//! Question: how long do those steps of a migration take that grow with the number of objects, apart from QEMU's
//! sending? The device has 10,000 regions of one page, each with a page directory and a table of its own, as the stock
//! driver makes them.
//!
//! Limit: the guest's memory is in this process, warm in the caches, and nothing else runs.
//!
//! `cargo run --release -p vrdma-driver --example many_regions`, prints JSON: the median of
//! several rounds in microseconds.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use vrdma_driver::object::{Context as Program, rights};
use vrdma_driver::{Directory, Fabric, Guest};
use vrdma_memory::PAGE;
use vrdma_pvrdma::abi::request::CreateMr;
use vrdma_pvrdma::{Context, Device};

const REGIONS: usize = 10_000;
const ROUNDS: usize = 9;

fn main() {
    let mut fabric = Fabric::new();
    let guest = fabric.add();
    register(&mut fabric[guest]);
    let vm = &mut fabric[guest];
    let mut steps: Vec<(&str, Vec<u128>)> = Vec::new();
    for _ in 0..ROUNDS {
        for (at, (step, us)) in round(vm).into_iter().enumerate() {
            if steps.len() == at {
                steps.push((step, Vec::new()));
            }
            steps[at].1.push(us);
        }
    }
    for (step, mut us) in steps {
        us.sort_unstable();
        println!("{}", json!({ "step": step, "us": us[ROUNDS / 2] as u64 }));
    }
}

fn register(vm: &mut Guest) {
    let pd = vm.create_pd(Program::KERNEL).expect("a domain");
    for region in 0..REGIONS {
        let directory = Directory::with_pages(&mut vm.ram, 1);
        vm.create_mr(&CreateMr {
            start: (PAGE * (region as u64 + 1)).into(),
            length: PAGE.into(),
            pdir_dma: directory.address.into(),
            pd_handle: pd.handle.into(),
            access_flags: rights::ALL.into(),
            flags: 0.into(),
            nchunks: directory.count().into(),
        })
        .expect("a region");
    }
}

/// Freezes the guest, and lets it go on as it was.
fn round(vm: &mut Guest) -> Vec<(&'static str, u128)> {
    let mut steps = Vec::new();
    let records = timed(&mut steps, "freeze", || vm.device.freeze());
    let mac = vm.mac();
    let context = Context {
        mac,
        records,
        pages: Vec::new(),
    };
    let bytes = timed(&mut steps, "encode", || context.encode());
    let decoded = timed(&mut steps, "decode", || Context::decode(&bytes));
    let decoded = decoded.expect("a context");
    let config = *vm.device.config();
    let fits = timed(&mut steps, "check", || decoded.check(&config));
    fits.expect("its own context");
    let (memory, now) = (Arc::clone(vm.dma()), vm.now());
    let doorbells = vm.device.doorbell_fd();
    let doorbells = doorbells.map(|fd| fd.try_clone_to_owned().expect("a descriptor"));
    let other = timed(&mut steps, "resume", || {
        Device::resume(config, memory, doorbells, &decoded.records, None, now)
    });
    let other = other.expect("a device");
    timed(&mut steps, "drop", || drop(other));
    vm.device.thaw(now);
    steps
}

fn timed<T>(
    steps: &mut Vec<(&'static str, u128)>,
    step: &'static str,
    work: impl FnOnce() -> T,
) -> T {
    let began = Instant::now();
    let done = work();
    steps.push((step, began.elapsed().as_micros()));
    done
}
