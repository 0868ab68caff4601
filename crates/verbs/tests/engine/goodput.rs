//! Bulk transfers over paths that take time and lose frames: all bytes arrive, and not much more slowly than the path
//! allows. Times are those of the simulated clock.

use std::time::Duration;

use proptest::prelude::*;
use vrdma_verbs::Time;
use vrdma_verbs::attr::QpState;
use vrdma_verbs::work::{SendOp, Status};
use vrdma_wire::Mtu;

use crate::pair::Setup;
use crate::pair::node::ALL;
use crate::pair::path::{Faults, Path};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Send,
    Write,
    Read,
}

const KINDS: [Kind; 3] = [Kind::Send, Kind::Write, Kind::Read];

/// A local ACK time-out of 67 ms, as applications choose it.
fn setup() -> Setup {
    Setup {
        retry_count: 7,
        rd_atomic: 16,
        timeout: 14,
        ..Setup::default()
    }
}

/// Moves `messages` messages of `bytes` from one node to the other and returns how long it took.
fn transfer(path: &mut Path, kind: Kind, messages: u64, bytes: u32) -> Duration {
    let begin = path.pair.now;
    let data: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut ends = Vec::new();
    for id in 0..messages {
        let held = match kind {
            Kind::Read => path.pair.b().holding(&data),
            _ => path.pair.a().holding(&data),
        };
        let filled = match kind {
            Kind::Read => path.pair.a().register(bytes, ALL),
            _ => path.pair.b().register(bytes, ALL),
        };
        match kind {
            Kind::Send => {
                path.pair.b().receive(id, &[filled.sge()]);
                path.pair.a().send(id, SendOp::Send, &[held.sge()]);
            }
            Kind::Write => {
                let op = SendOp::Write(filled.remote(0));
                path.pair.a().send(id, op, &[held.sge()]);
            }
            Kind::Read => {
                let op = SendOp::Read(held.remote(0));
                path.pair.a().send(id, op, &[filled.sge()]);
            }
        }
        ends.push(filled);
    }
    path.run_until(messages as usize, begin + Duration::from_secs(60));
    let done: Vec<_> = (0..messages).map(|id| (id, Status::Success)).collect();
    assert_eq!(
        path.pair.nodes[0].sends(),
        done,
        "{kind:?} {:?}",
        path.faults
    );
    let receiver = match kind {
        Kind::Read => &path.pair.nodes[0],
        _ => &path.pair.nodes[1],
    };
    for end in &ends {
        assert!(receiver.bytes(end) == data, "{kind:?} {:?}", path.faults);
    }
    path.pair.now.since(begin)
}

/// Returns megabytes a second of the simulated path, which carries a frame each microsecond.
fn goodput(kind: Kind, loss: u64, delay_us: u64) -> f64 {
    let faults = Faults {
        loss,
        ..Faults::default()
    };
    let delay = Duration::from_micros(delay_us);
    let mut path = Path::new(setup(), faults, delay, 0x5eed + loss + delay_us);
    let time = transfer(&mut path, kind, 20, 500_000);
    let goodput = 20.0 * 0.5 / time.as_secs_f64();
    let counters = path.pair.nodes[0].hca.counters();
    println!(
        "{kind:?} loss {loss} delay {delay_us} us: {goodput:.1} MB/s, {} frames, {} retries",
        path.frames, counters.retries,
    );
    assert_eq!(counters.timeouts, 0);
    goodput
}

#[test]
fn a_good_path_is_filled() {
    for kind in KINDS {
        let goodput = goodput(kind, 0, 20);
        assert!(goodput > 800.0, "{kind:?}: {goodput}");
    }
}

#[test]
fn losses_cost_round_trips_and_not_time_outs() {
    for kind in KINDS {
        for (loss, delay_us, least) in [(10, 20, 600.0), (100, 20, 250.0), (500, 20, 80.0)] {
            let goodput = goodput(kind, loss, delay_us);
            assert!(goodput > least, "{kind:?} {loss}: {goodput}");
        }
        for (loss, least) in [(100, 20.0), (500, 5.0)] {
            let goodput = goodput(kind, loss, 1000);
            assert!(goodput > least, "{kind:?} {loss} far: {goodput}");
        }
    }
}

#[test]
fn marks_slow_a_connection_down_and_it_recovers() {
    let faults = Faults {
        mark: 500,
        ..Faults::default()
    };
    let mut path = Path::new(setup(), faults, Duration::from_micros(20), 3);
    let marked = transfer(&mut path, Kind::Write, 20, 500_000);
    let notified = path.pair.a().hca.counters().congestion_received;
    assert!(notified > 10);
    assert_eq!(notified, path.pair.b().hca.counters().congestion_sent);
    assert!(marked > Duration::from_millis(20), "{marked:?}");
    assert_eq!(path.pair.a().state(), QpState::Rts);
    path.faults.mark = 0;
    path.pair.now = path.pair.now + Duration::from_secs(5);
    path.pair.a().sent.clear();
    let free = transfer(&mut path, Kind::Write, 20, 500_000);
    assert!(free < Duration::from_millis(16), "{free:?}");
}

#[test]
fn a_silent_peer_ends_in_retry_exceeded_with_little_work() {
    let faults = Faults {
        loss: 10_000,
        ..Faults::default()
    };
    let mut path = Path::new(setup(), faults, Duration::from_micros(20), 1);
    let data = path.pair.a().holding(&[1; 100_000]);
    let target = path.pair.b().register(100_000, ALL);
    let op = SendOp::Write(target.remote(0));
    path.pair.a().send(1, op, &[data.sge()]);
    path.run_until(1, Time(60_000_000_000));
    assert_eq!(path.pair.a().sends(), [(1, Status::RetryExc)]);
    assert!(path.frames < 300, "{}", path.frames);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn everything_arrives_whatever_the_path_does(
        loss in 0u64..600,
        double in 0u64..300,
        reorder in 0u64..300,
        corrupt in 0u64..100,
        mark in 0u64..300,
        delay_us in 1u64..2000,
        mtu in 1u32..=5,
        rd_atomic in 1u8..=16,
        seed in any::<u64>(),
        kind in prop::sample::select(&KINDS[..]),
    ) {
        let faults = Faults { loss, double, reorder, corrupt, mark };
        let setup = Setup { mtu: Mtu::from_code(mtu).unwrap(), rd_atomic, ..setup() };
        let mut path = Path::new(setup, faults, Duration::from_micros(delay_us), seed);
        transfer(&mut path, kind, 5, 60_000);
    }
}
