//! Thousands of seeds, and adapters that are broken on purpose.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use vrdma_sim::{Journeys, Kind, Options, Sabotage, Summary, run};

/// Every seed below this one is run.
const SEEDS: u64 = 4000;

/// Number of seeds with devices, which cost more.
const SEEDS_WITH_DEVICES: u64 = 150;

/// Number of seeds with guests that are away for longer than connections wait.
const SEEDS_WITH_LONG_JOURNEYS: u64 = 40;

/// Number of seeds in which adapters want more than they can get.
const SEEDS_WITH_CROWDS: u64 = 60;

const SEEDS_AND_DEVICES: u64 = SEEDS + SEEDS_WITH_DEVICES;
const ALL_SEEDS: u64 = SEEDS_AND_DEVICES + SEEDS_WITH_CROWDS;

/// Number of seeds within which a broken adapter is noticed.
const SEEDS_BROKEN: u64 = 100;

/// Runs seeds on one thread; returns their sum, and stops at the first violation.
fn work(next: &AtomicU64) -> Result<Summary, String> {
    let mut total = Summary::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let (kind, flag) = match seed {
            0..SEEDS => (Kind::Engines, ""),
            SEEDS..SEEDS_AND_DEVICES => (Kind::Devices, " --devices"),
            SEEDS_AND_DEVICES..ALL_SEEDS => (Kind::Crowds, " --crowds"),
            _ => return Ok(total),
        };
        let options = Options {
            seed,
            kind,
            ..Options::default()
        };
        match run(options).outcome {
            Ok(summary) => total += summary,
            Err(violation) => {
                return Err(format!(
                    "seed {seed}: {violation}\nto see it: cargo run -p vrdma-sim -- --seed {seed}{flag} --trace"
                ));
            }
        }
    }
}

#[test]
fn every_promise_is_kept_and_everything_happens() {
    let next = AtomicU64::new(0);
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let results: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&next))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    let mut total = Summary::default();
    for result in results {
        total += result.unwrap_or_else(|violation| panic!("{violation}"));
    }
    for (name, number) in total.numbers() {
        println!("{number:12} {name}");
        assert!(number > 0, "no run has any {name}");
    }
}

#[test]
fn a_seed_replays_its_run() {
    for seed in 0..40 {
        let options = Options {
            seed,
            trace: true,
            kind: [Kind::Engines, Kind::Devices, Kind::Crowds][seed as usize % 3],
            journeys: match seed % 4 {
                3 => Journeys::Long,
                _ => Journeys::Short,
            },
            sabotage: None,
        };
        let [first, second] = [run(options), run(options)];
        assert!(!first.trace.is_empty());
        assert_eq!(first.trace, second.trace);
        assert_eq!((first.outcome, first.ended), (second.outcome, second.ended));
    }
}

/// Runs seeds whose guests are away for long; returns moves, and runs in which a connection failed.
fn long_journeys(journeys: Journeys) -> (u64, Vec<String>) {
    let mut moves = 0;
    let mut failed = Vec::new();
    for seed in 0..SEEDS_WITH_LONG_JOURNEYS {
        let options = Options {
            seed,
            kind: Kind::Devices,
            journeys,
            ..Options::default()
        };
        match run(options).outcome {
            Ok(summary) => moves += summary.device_moves,
            Err(violation) => failed.push(format!("seed {seed}: {violation}")),
        }
    }
    (moves, failed)
}

#[test]
fn no_connection_fails_however_long_guests_are_away() {
    let (moves, failed) = long_journeys(Journeys::Long);
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(moves > SEEDS_WITH_LONG_JOURNEYS, "{moves}");
}

/// Connections survive because of the notices.
#[test]
fn connections_fail_where_nobody_is_told() {
    let (_, failed) = long_journeys(Journeys::LongUntold);
    println!("{} of {SEEDS_WITH_LONG_JOURNEYS} runs fail", failed.len());
    assert!(
        failed.len() as u64 > SEEDS_WITH_LONG_JOURNEYS / 3,
        "{failed:#?}"
    );
}

#[test]
fn broken_adapters_are_caught() {
    for (sabotage, name) in Sabotage::ALL {
        let caught = (0..SEEDS_BROKEN).find_map(|seed| {
            let options = Options {
                seed,
                kind: sabotage.kind(),
                sabotage: Some(sabotage),
                ..Options::default()
            };
            Some((seed, run(options).outcome.err()?))
        });
        let (seed, violation) = caught.unwrap_or_else(|| panic!("{name} passes for good"));
        println!("{name}: seed {seed}: {violation}");
    }
}
