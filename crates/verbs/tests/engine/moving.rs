//! A connection changes from a wire to memory copy and back while part of a message is done and its requester does not
//! know that. Units have different lengths on the two paths.

use vrdma_verbs::Pace;
use vrdma_verbs::object::QpType;
use vrdma_verbs::work::{SendOp, Status};
use vrdma_wire::Mtu;

use crate::pair::node::ALL;
use crate::pair::{Pair, Setup};

const BYTES: u32 = 64 * 256;

/// READs of 64 packets go as two of 32 on a wire. The test never waits for a time-out.
fn setup() -> Setup {
    Setup {
        mtu: Mtu::B256,
        timeout: 0,
        ..Setup::default()
    }
}

fn bytes() -> Vec<u8> {
    (0..BYTES).map(|at| (at / 7) as u8).collect()
}

/// Sends as many of A's units as may go; B gets the first ones, and A gets no answer.
fn hear_first(pair: &mut Pair, units: usize) {
    match pair.pace {
        Pace::Wire => {
            let (now, frames) = (pair.now, pair.frames_of(0));
            assert!(frames.len() >= units, "{} frames", frames.len());
            for frame in &frames[..units] {
                pair.b().receive_frame(frame, now);
            }
        }
        Pace::Local => {
            let sent = pair.transmit(0);
            assert!(sent.len() >= units, "{} units", sent.len());
            for unit in &sent[..units] {
                pair.deliver(1, unit);
            }
        }
    }
}

/// Changes the path to the peer, and checks that everything completes.
fn go_on(pair: &mut Pair) {
    pair.pace = match pair.pace {
        Pace::Wire => Pace::Local,
        Pace::Local => Pace::Wire,
    };
    let peer = pair.b().gid;
    pair.a().hca.resume_peer(peer);
    pair.run();
    assert_eq!(
        pair.a().sends(),
        [(1, Status::Success), (2, Status::Success)]
    );
    assert_eq!(pair.a().hca.counters().timeouts, 0);
}

/// Tests with data of two READs, the second behind the first.
fn read(pair: &mut Pair, heard: usize) {
    let there = pair.b().holding(&bytes());
    let [one, other] = [1, 2].map(|id| {
        let here = pair.a().register(BYTES, ALL);
        pair.a()
            .send(id, SendOp::Read(there.remote(0)), &[here.sge()]);
        here
    });
    hear_first(pair, heard);
    go_on(pair);
    for mr in [one, other] {
        assert_eq!(pair.nodes[0].bytes(&mr), bytes());
    }
}

#[test]
fn a_read_that_was_half_done_on_a_wire_is_done_as_one() {
    for heard in 1..3 {
        read(&mut Pair::wired(QpType::Rc, setup()), heard);
    }
}

#[test]
fn a_read_that_was_half_done_in_short_units_is_done_on_a_wire() {
    for packets in [3, 32, 40] {
        for heard in 1..3 {
            let mut pair = Pair::with(QpType::Rc, setup());
            pair.unit_bytes = packets * 256;
            read(&mut pair, heard);
        }
    }
}

#[test]
fn a_write_that_was_half_done_on_a_wire_is_done_in_long_units() {
    for heard in [1, 5, 63] {
        let mut pair = Pair::wired(QpType::Rc, setup());
        let there = pair.b().register(BYTES, ALL);
        for id in [1, 2] {
            let here = pair.a().holding(&bytes());
            pair.a()
                .send(id, SendOp::Write(there.remote(0)), &[here.sge()]);
        }
        hear_first(&mut pair, heard);
        go_on(&mut pair);
        assert_eq!(pair.nodes[1].bytes(&there), bytes());
    }
}

/// No later message shows B what is missing.
#[test]
fn the_last_message_needs_no_other_one_behind_it() {
    for is_read in [false, true] {
        let mut pair = Pair::wired(QpType::Rc, setup());
        let (here, there) = (pair.a().register(BYTES, ALL), pair.b().register(BYTES, ALL));
        let op = match is_read {
            true => SendOp::Read(there.remote(0)),
            false => SendOp::Write(there.remote(0)),
        };
        pair.a().send(1, op, &[here.sge()]);
        hear_first(&mut pair, 1);
        pair.pace = Pace::Local;
        let peer = pair.b().gid;
        pair.a().hca.resume_peer(peer);
        pair.run();
        assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    }
}

/// The first READ's data was lost, and the second one's arrived: so everything sent has been done, and the first is
/// asked for again.
#[test]
fn data_that_is_missing_before_what_was_answered_is_asked_for_again() {
    let mut pair = Pair::with(QpType::Rc, setup());
    let there = pair.b().holding(&bytes());
    let here = pair.a().register(BYTES, ALL);
    for id in [1, 2] {
        pair.a()
            .send(id, SendOp::Read(there.remote(0)), &[here.sge()]);
    }
    let sent = pair.transmit(0);
    pair.deliver(1, &sent[0]);
    let answer = pair.deliver(1, &sent[1]).unwrap();
    pair.respond(0, &answer);
    // The data is asked for again while the peer already stands still.
    assert_eq!(pair.transmit(0).len(), 1);
    go_on(&mut pair);
    assert_eq!(pair.nodes[0].bytes(&here), bytes());
}
