//! Queue pairs whose GID table entry is empty for a while.

use std::time::Duration;

use vrdma_verbs::work::{SendOp, Status};
use vrdma_wire::Gid;

use crate::pair::Pair;
use crate::pair::node::ALL;

#[test]
fn without_its_gid_a_connection_stops_and_goes_on() {
    let mut pair = Pair::rc();
    let mr = pair.b().register(64, ALL);
    let gid = pair.a().hca.unbind_gid(0).unwrap().unwrap();
    pair.a().send(1, SendOp::Write(mr.remote(0)), &[]);
    pair.advance(Duration::from_millis(1));
    assert_eq!(pair.a().sends(), []);
    pair.a().hca.bind_gid(0, gid).unwrap();
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    pair.a().hca.unbind_gid(0).unwrap();
    pair.a().send(2, SendOp::Write(mr.remote(0)), &[]);
    pair.run_dry();
    assert_eq!(pair.a().sends()[1..], [(2, Status::RetryExc)]);
}

/// An unanswered service has no timer that would look again.
#[test]
fn an_address_that_comes_back_wakes_whoever_waits_for_it() {
    let mut pair = Pair::uc();
    let gid = pair.a().hca.unbind_gid(0).unwrap().unwrap();
    pair.b().receive(9, &[]);
    pair.a().send(1, SendOp::Send, &[]);
    pair.run();
    assert_eq!(pair.b().receives(), []);
    pair.a().hca.bind_gid(1, Gid([7; 16])).unwrap();
    pair.run();
    assert_eq!(pair.b().receives(), [], "another entry of the table");
    pair.a().hca.bind_gid(0, gid).unwrap();
    pair.run();
    assert_eq!(pair.b().receives(), [(9, Status::Success)]);
}
