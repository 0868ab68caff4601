//! Peers that do not answer, or only in unhelpful ways: how long a queue pair tries.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::QpType;
use vrdma_verbs::packet::Reply;
use vrdma_verbs::unit::Route;
use vrdma_verbs::work::{SendOp, Status};
use vrdma_wire::Mtu;

use crate::pair::node::ALL;
use crate::pair::{Fate, Pair, Setup};

/// 4.096 us * 2^14, the time-out that perftest chooses.
const TIMEOUT: Duration = Duration::from_nanos(4096 << 14);

fn setup() -> Setup {
    Setup {
        timeout: 14,
        retry_count: 7,
        ..Setup::default()
    }
}

/// Makes a pair whose wire carries nothing while the switch is off, but counts all frames.
fn switched(setup: Setup) -> (Pair, Rc<Cell<bool>>, Rc<Cell<u32>>) {
    let mut pair = Pair::wired(QpType::Rc, setup);
    let (up, frames) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)));
    let (state, count) = (Rc::clone(&up), Rc::clone(&frames));
    pair.fates(move |_| {
        count.set(count.get() + 1);
        if state.get() {
            Fate::Arrive
        } else {
            Fate::Lose
        }
    });
    (pair, up, frames)
}

#[test]
fn a_peer_that_never_answers_is_given_up_when_the_attributes_say_so() {
    for retry_count in [0, 3, 7] {
        let setup = Setup {
            retry_count,
            ..setup()
        };
        let (mut pair, up, frames) = switched(setup);
        up.set(false);
        let mr = pair.b().register(64, ALL);
        for id in 0..3 {
            pair.a().send(id, SendOp::Write(mr.remote(0)), &[]);
        }
        let bound = TIMEOUT * (u32::from(retry_count) + 1);
        pair.advance(bound - Duration::from_nanos(1));
        assert_eq!(pair.a().sends(), []);
        pair.advance(Duration::from_nanos(1));
        let [first, second, third] = pair.a().sends()[..] else {
            panic!("{:?}", pair.a().sends());
        };
        assert_eq!(first, (0, Status::RetryExc));
        assert_eq!([second.1, third.1], [Status::WrFlush; 2]);
        assert_eq!(pair.a().state(), QpState::Err);
        assert!(frames.get() < 40, "{}", frames.get());
        assert_eq!(pair.next_deadline(), None);
    }
}

#[test]
fn a_link_that_comes_back_in_time_costs_nothing_else() {
    for milliseconds in [1, 50, 150, 300, 460] {
        let (mut pair, up, _) = switched(setup());
        let data = pair.a().holding(&[9; 50_000]);
        let mr = pair.b().register(50_000, ALL);
        let write = SendOp::Write(mr.remote(0));
        pair.a().send(1, write.clone(), &[data.sge()]);
        pair.run();
        up.set(false);
        pair.a().send(2, write, &[data.sge()]);
        pair.advance(Duration::from_millis(milliseconds));
        assert_eq!(pair.a().sends().len(), 1, "{milliseconds}");
        up.set(true);
        pair.advance(4 * TIMEOUT);
        let done = [(1, Status::Success), (2, Status::Success)];
        assert_eq!(pair.a().sends(), done, "{milliseconds}");
        assert_eq!(pair.b().bytes(&mr), [9; 50_000]);
    }
}

/// The time-out is 4.096 us * 2^8, eight times: a busy host may need longer. Attempts wait up to four times as long
/// (IBTA 9.7.6.1.3).
#[test]
fn who_asked_for_little_time_waits_for_a_busy_host() {
    const SHORT: Duration = Duration::from_nanos(4096 << 8);
    let short = || Setup {
        timeout: 8,
        ..setup()
    };
    let (mut pair, up, _) = switched(short());
    let mr = pair.b().register(64, ALL);
    up.set(false);
    pair.a().send(1, SendOp::Write(mr.remote(0)), &[]);
    pair.advance(Duration::from_millis(20));
    up.set(true);
    pair.advance(5 * SHORT);
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    up.set(false);
    pair.a().send(2, SendOp::Write(mr.remote(0)), &[]);
    pair.advance(Duration::from_millis(20));
    assert_eq!(pair.a().sends().len(), 1);
    pair.advance(8 * 4 * SHORT);
    assert_eq!(pair.a().sends()[1..], [(2, Status::RetryExc)]);
}

#[test]
fn a_link_that_stays_away_ends_the_connection() {
    let (mut pair, up, _) = switched(setup());
    let mr = pair.b().register(64, ALL);
    up.set(false);
    pair.a().send(1, SendOp::Write(mr.remote(0)), &[]);
    pair.advance(8 * TIMEOUT);
    up.set(true);
    pair.run_dry();
    assert_eq!(pair.a().sends(), [(1, Status::RetryExc)]);
}

#[test]
fn a_receiver_that_is_never_ready_is_asked_for_ever_if_so_agreed() {
    let setup = Setup {
        rnr_retry: 7,
        ..setup()
    };
    let (mut pair, _, frames) = switched(setup);
    let data = pair.a().holding(&[5; 5000]);
    let room = pair.b().register(5000, ALL);
    pair.a().send(1, SendOp::Send, &[data.sge()]);
    pair.a().send(2, SendOp::Send, &[data.sge()]);
    pair.advance(Duration::from_secs(2));
    assert_eq!(pair.a().sends(), []);
    // There is one attempt and one refusal every 0.64 ms; the first attempt takes longer.
    let rounds = 2_000_000 / 640;
    assert!(frames.get() > rounds, "{}", frames.get());
    assert!(frames.get() < 12 * rounds, "{}", frames.get());
    pair.b().receive(1, &[room.sge()]);
    pair.b().receive(2, &[room.sge()]);
    pair.run_dry();
    let done = [(1, Status::Success), (2, Status::Success)];
    assert_eq!(pair.a().sends(), done);
}

#[test]
fn requests_replayed_for_ever_are_done_once_and_pile_up_nothing() {
    let setup = Setup {
        mtu: Mtu::B256,
        ..setup()
    };
    let mut pair = Pair::wired(QpType::Rc, setup);
    let word = pair.b().holding(&7u64.to_le_bytes());
    let (old, data) = (pair.a().register(8, ALL), pair.a().register(1024, ALL));
    let long = pair.b().register(1024, ALL);
    pair.b().receive(9, &[]);
    let remote = word.remote(0);
    pair.a()
        .send(1, SendOp::FetchAdd { remote, add: 1 }, &[old.sge()]);
    pair.a().send(2, SendOp::Send, &[]);
    pair.a()
        .send(3, SendOp::Read(long.remote(0)), &[data.sge()]);
    let frames = pair.frames_of(0);
    let now = pair.now;
    for _ in 0..1000 {
        for frame in &frames {
            pair.b().receive_frame(frame, now);
        }
    }
    assert_eq!(pair.b().bytes(&word), 8u64.to_le_bytes());
    assert_eq!(pair.b().receives(), [(9, Status::Success)]);
    let answers = pair.frames_of(1);
    assert!(answers.len() < 64, "{}", answers.len());
    for _ in 0..1000 {
        for frame in &answers {
            pair.a().receive_frame(frame, now);
        }
    }
    let done = [1, 2, 3].map(|id| (id, Status::Success));
    assert_eq!(pair.a().sends(), done);
    pair.run_dry();
    assert_eq!(pair.a().hca.counters().retries, 0);
}

/// Returns a congestion notification of the second node for the first one's queue pair.
fn notification(pair: &Pair) -> Vec<u8> {
    let [a, b] = &pair.nodes;
    b.reply_frame(&Reply::Congestion {
        route: Route {
            sgid: b.gid,
            dgid: a.gid,
            hop_limit: 64,
            ..Route::default()
        },
        source: b.name().qpn,
        destination: a.name().qpn,
    })
}

#[test]
fn read_data_held_by_its_rate_does_not_wait_for_an_unready_receiver() {
    let setup = Setup {
        // 655 ms.
        min_rnr_timer: 0,
        rnr_retry: 7,
        ..setup()
    };
    let mut pair = Pair::wired(QpType::Rc, setup);
    let slower = notification(&pair);
    for _ in 0..200 {
        let now = pair.now;
        pair.a().receive_frame(&slower, now);
        pair.now = now + Duration::from_micros(60);
    }
    pair.a().send(1, SendOp::Send, &[]);
    pair.run();
    assert_eq!(pair.a().hca.counters().rnr_naks_received, 1);
    let source = pair.a().holding(&[3; 32 * 1024]);
    let target = pair.b().register(32 * 1024, ALL);
    pair.b()
        .send(2, SendOp::Read(source.remote(0)), &[target.sge()]);
    pair.run();
    assert_eq!(pair.b().sends(), []);
    pair.advance(Duration::from_millis(100));
    assert_eq!(pair.b().sends(), [(2, Status::Success)]);
    assert_eq!(pair.b().bytes(&target), [3; 32 * 1024]);
}

#[test]
fn where_nobody_answers_packets_go_at_the_rate_of_a_link() {
    let mut pair = Pair::wired(QpType::Uc, setup());
    let data = pair.a().register(64 * 1024, ALL);
    let mr = pair.b().register(64 * 1024, ALL);
    for id in 0..200 {
        pair.a()
            .send(id, SendOp::Write(mr.remote(0)), &[data.sge()]);
    }
    let burst = pair.transmit(0).len();
    assert!((64..200).contains(&burst), "{burst}");
    let (begin, mut end) = (pair.now, pair.now);
    let mut sent = burst;
    while let Some(next) = pair.next_deadline() {
        pair.now = next;
        pair.expire();
        let units = pair.transmit(0).len();
        assert!(units <= burst, "{units}");
        sent += units;
        if units > 0 {
            end = next;
        }
    }
    assert_eq!(sent, 200 * 64);
    pair.a().drain_outputs();
    assert_eq!(pair.a().sends().len(), 200);
    let rate = 200.0 * 65536.0 / end.since(begin).as_secs_f64();
    assert!((1.2e9..1.3e9).contains(&rate), "{rate}");
}
