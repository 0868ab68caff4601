//! The machine with a front end that keeps its rings in vectors and writes down what it is told.

mod engine;
mod owner;

use owner::{Log, Rings};
use vrdma_adapter::{Failing, FrontEnd, Publishing, Receiving, RunState, Sending};
use vrdma_verbs::Pace;
use vrdma_verbs::object::QpId;

/// Does everything that a turn can do; returns how many requests were handed out.
fn run(rings: &mut Rings) -> usize {
    let mut requests = 0;
    while rings.poll(Rings::TURN) {
        while let Some(request) = rings.next_request(Rings::TURN, &mut Pace::Local) {
            requests += 1;
            let response = rings.deliver(Rings::TURN, &request, Rings::SOURCE);
            if let Some(response) = response {
                rings.respond(Rings::TURN, &response, Rings::SOURCE);
            }
        }
    }
    rings.end_batch(Rings::TURN);
    requests
}

#[test]
fn a_queue_pair_is_in_the_run_queue_once() {
    let mut rings = Rings::connected_to_itself(64);
    let qp = rings.qp;
    rings.post(20);
    for _ in 0..3 {
        rings.wake(qp);
    }
    assert!(rings.run_one(Rings::TURN), "a batch of 16");
    assert!(rings.run_one(Rings::TURN), "what was left");
    assert!(!rings.run_one(Rings::TURN));
    rings.wake(QpId(77));
    assert!(!rings.run_one(Rings::TURN), "nobody has that number");
    assert!(rings.core().is_runnable(), "the engine has its units");
    assert_eq!(run(&mut rings), 20);
    assert!(!rings.core().is_runnable());
}

/// Makes `count` queue pairs that have nothing to fetch and wait for a turn.
fn waiting(count: u32) -> Rings {
    let mut rings = Rings::connected_to_itself(64);
    for id in (1000..1000 + count).map(QpId) {
        rings.others.insert(id, RunState::default());
        rings.wake(id);
    }
    rings
}

/// Removes a queue pair, with its state.
fn forget(rings: &mut Rings, id: QpId) {
    rings.forget_turn(id);
    rings.others.remove(&id);
}

/// Counts the looks at states that it takes until all waiting queue pairs are gone, one after another.
fn looks_until_all_are_gone(count: u32) -> u64 {
    let mut rings = waiting(count);
    let before = rings.looks;
    for id in (1000..1000 + count).map(QpId) {
        forget(&mut rings, id);
    }
    assert!(!rings.run_one(Rings::TURN), "nobody waits");
    assert!(!rings.core().is_runnable());
    rings.looks - before
}

#[test]
fn a_queue_pair_that_goes_costs_the_same_beside_many_that_wait() {
    for others in [10, 10_000] {
        let mut rings = waiting(others);
        let before = rings.looks;
        forget(&mut rings, QpId(1003));
        assert_eq!(rings.looks - before, 1, "its own, beside {others}");
    }
    // One look for each queue pair, and twice as many when entries that were left behind are removed.
    assert!(looks_until_all_are_gone(10_000) <= 5 * 10_000);
}

#[test]
fn what_goes_and_comes_again_does_not_pile_up() {
    let mut rings = waiting(4);
    let id = QpId(1000);
    for _ in 0..10_000 {
        rings.forget_turn(id);
        rings.wake(id);
    }
    let before = rings.looks;
    for _ in 0..4 {
        assert!(rings.run_one(Rings::TURN));
    }
    assert!(!rings.run_one(Rings::TURN), "each has had its turn, once");
    let looks = rings.looks - before;
    assert!(looks <= 4 * 4, "{looks}");
}

#[test]
fn slots_are_free_before_completions_are_seen() {
    let mut rings = Rings::connected_to_itself(64);
    rings.post(3);
    rings.wake(rings.qp);
    assert_eq!(run(&mut rings), 3);
    let seen = rings.take_log();
    let released = seen.iter().position(|log| *log == Log::Released);
    let published = seen.iter().position(|log| *log == Log::Published);
    assert!(released < published, "{seen:?}");
    let written = seen.iter().filter(|log| **log == Log::Written(0));
    assert_eq!(written.count(), 3, "{seen:?}");
}

#[test]
fn more_requests_than_the_engine_has_room_for_wait_in_the_ring() {
    let mut rings = Rings::connected_to_itself(1 << 20);
    rings.post(1000);
    rings.wake(rings.qp);
    assert_eq!(run(&mut rings), 1000);
    assert_eq!(rings.completed(), 1000);
}

#[test]
fn what_was_in_a_queue_that_overflows_is_shown_before_it_fails() {
    let mut rings = Rings::connected_to_itself(2);
    rings.post(4);
    rings.wake(rings.qp);
    run(&mut rings);
    let seen = rings.take_log();
    let published = seen.iter().position(|log| *log == Log::Published);
    let failed = seen.iter().position(|log| *log == Log::CqFailed);
    assert!(published.is_some() && published < failed, "{seen:?}");
    assert_eq!(rings.completed(), 2, "and not one more");
}

#[test]
fn a_failed_ring_flushes_what_it_holds() {
    let mut rings = Rings::connected_to_itself(64);
    rings.post(2);
    let qp = rings.qp;
    rings.fail_qp(Rings::TURN, qp, owner::Broken::Index);
    assert_eq!(run(&mut rings), 0);
    let seen = rings.take_log();
    assert!(seen.contains(&Log::QpFailed), "{seen:?}");
    assert!(
        !seen.contains(&Log::Written(0)),
        "nothing succeeds: {seen:?}"
    );
    rings.fail_qp(Rings::TURN, qp, owner::Broken::Index);
    assert!(rings.take_log().is_empty(), "it fails once");
}

#[test]
fn what_an_owner_had_is_freed_in_slices() {
    const REGIONS: usize = 1000;
    let mut rings = Rings::connected_to_itself(64);
    rings.register(REGIONS);
    rings.post(5);
    rings.wake(rings.qp);
    rings.retire();
    let mut polls = 0;
    while rings.poll(Rings::TURN) {
        let freed = rings.take_log().len();
        assert!(freed <= 32, "{freed} objects in one poll");
        assert!(rings.next_request(Rings::TURN, &mut Pace::Local).is_none());
        polls += 1;
    }
    assert!(polls >= REGIONS / 32, "{polls} polls");
    assert_eq!(rings.completed(), 0);
    assert!(!rings.core().is_runnable());
}

/// An answer leaves by an uplink after the batch: a responder that forgot what it acknowledged would never get it
/// again.
#[test]
fn what_a_unit_did_is_committed_with_the_batch_though_nobody_is_shown_anything() {
    let mut rings = Rings::connected_to_itself(64);
    rings.post(1);
    rings.wake(rings.qp);
    assert!(rings.poll(Rings::TURN));
    let request = rings.next_request(Rings::TURN, &mut Pace::Local).unwrap();
    assert!(
        rings
            .deliver(Rings::TURN, &request, Rings::SOURCE)
            .is_some()
    );
    assert!(rings.uncommitted);
    rings.take_log();
    rings.end_batch(Rings::TURN);
    assert!(!rings.uncommitted && rings.take_log().is_empty());
}

#[test]
fn a_row_of_requests_is_noted_once() {
    let mut rings = Rings::connected_to_itself(64);
    rings.post(5);
    rings.wake(rings.qp);
    assert!(rings.poll(Rings::TURN));
    assert!(
        deliver_all_in_a_row(&mut rings)
            .iter()
            .all(|noted| *noted == 0)
    );
    rings.end_row();
    assert_eq!(rings.notes, 1);
    rings.end_row();
    assert_eq!(rings.notes, 1, "nothing has come further since");
}

/// The intent of an atomic is committed before the atomic is done, with everything noted before, and says which number
/// it has.
#[test]
fn what_came_before_an_atomic_is_noted_before_it_is_done() {
    let mut rings = Rings::connected_to_itself(64);
    rings.post(2);
    rings.post_atomics(2);
    rings.wake(rings.qp);
    assert!(rings.poll(Rings::TURN));
    assert_eq!(deliver_all_in_a_row(&mut rings), [0, 0, 1, 2]);
    rings.end_row();
    assert_eq!(rings.notes, 3);
}

/// Delivers all requests in a row; returns how many notes had been made after each.
fn deliver_all_in_a_row(rings: &mut Rings) -> Vec<usize> {
    let mut noted = Vec::new();
    while let Some(request) = rings.next_request(Rings::TURN, &mut Pace::Local) {
        let _ = rings.deliver_in_row(Rings::TURN, &request, Rings::SOURCE, &mut None);
        noted.push(rings.notes);
    }
    noted
}

#[test]
fn without_records_nothing_is_noted_and_no_changed_key_is_remembered() {
    for keeps_records in [true, false] {
        let mut rings = Rings::connected_to_itself(64);
        rings.keeps_records = keeps_records;
        rings.post_bind();
        rings.post(3);
        rings.wake(rings.qp);
        run(&mut rings);
        assert_eq!(rings.completed(), 4);
        assert_eq!(rings.notes > 0, keeps_records);
        assert_eq!(rings.core_mut().hca.take_changed_key(), None);
    }
}
