//! Damaged records of processes, by seeds.

use fastrand::Rng;

/// Seeds of each test run, and of one with `--ignored`.
const TRIES: u64 = 300;
const MANY: u64 = 10_000;

fn plays(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut dice = Rng::with_seed(seed);
        let length = dice.usize(200..1500);
        let script: Vec<u8> = (0..length).map(|_| dice.u8(..)).collect();
        vrdma_fuzz::process_session::kept::run(&script);
    }
}

#[test]
fn no_damage_of_records_ends_the_process_or_leaves_anything() {
    plays(0..TRIES);
}

#[test]
#[ignore = "takes minutes"]
fn ten_thousand_damages() {
    plays(0..MANY);
}
