//! Short requests to members of other shards.

use vrdma_verbs::work::Remote;

use super::*;

/// Short writes of patterns that differ, in one turn.
fn write_some(crossing: &mut Crossing, count: u8) {
    let remote = crossing.station(1).remote();
    for id in 0..count {
        crossing.station(0).memory.fill(0, id);
        let to = Remote {
            addr: remote.addr + u64::from(id) * 64,
            ..remote
        };
        crossing.post(id.into(), SendOp::Write(to), 64);
        crossing.hosts[0].turn(NOW);
    }
}

#[test]
fn what_is_short_goes_along() {
    let mut crossing = Crossing::new();
    write_some(&mut crossing, 8);
    let port = crossing.ports[0];
    assert!(crossing.hosts[0].is_quiet(port), "nobody reads its memory");
    crossing.station(0).memory.fill(0, 0xff);
    run_all(&mut crossing.hosts);
    let written = crossing.station(1).memory.bytes(0);
    for id in 0..8 {
        let part = &written[usize::from(id) * 64..][..64];
        assert!(part.iter().all(|byte| *byte == id), "{id}");
    }
    let done: Vec<_> = (0..8).map(|id| (id, Status::Success)).collect();
    assert_eq!(crossing.station(0).completed(), done);
}

#[test]
fn one_acknowledgement_comes_back_for_requests_in_a_row() {
    let mut crossing = Crossing::new();
    write_some(&mut crossing, 20);
    run_all(&mut crossing.hosts);
    assert_eq!(crossing.station(0).completed().len(), 20);
    assert_eq!(crossing.station(0).answers, 1);
}

#[test]
fn a_refusal_comes_back_behind_the_acknowledgement_before_it() {
    let mut crossing = Crossing::new();
    let right = crossing.station(1).remote();
    let wrong = Remote { addr: 0, ..right };
    for (id, to) in (0..).zip([right, right, wrong, right]) {
        crossing.post(id, SendOp::Write(to), 64);
    }
    run_all(&mut crossing.hosts);
    let expected = [
        (0, Status::Success),
        (1, Status::Success),
        (2, Status::RemAccess),
        (3, Status::WrFlush),
    ];
    assert_eq!(crossing.station(0).completed(), expected);
}
