//! A station stands still while its peer is on another shard.

use super::*;

fn stop(host: &mut Carrier, port: PortId, epoch: u64) {
    let member = station(host, port);
    (member.is_still, member.epoch) = (true, epoch);
    host.tell_paused(port, NOW);
}

fn go_on(host: &mut Carrier, port: PortId, epoch: u64) {
    let member = station(host, port);
    (member.is_still, member.epoch) = (false, epoch);
    host.tell_resumed(port, NOW);
}

#[test]
fn a_member_of_another_shard_is_told() {
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    let port = crossing.ports[1];
    stop(&mut crossing.hosts[1], port, 1);
    run_all(&mut crossing.hosts);
    crossing.post(7, SendOp::Write(remote), 64);
    run_all(&mut crossing.hosts);
    assert_eq!(crossing.station(0).completed(), []);
    assert_eq!(crossing.station(0).hca.next_deadline(), None, "it waits");
    go_on(&mut crossing.hosts[1], port, 2);
    run_all(&mut crossing.hosts);
    assert_eq!(crossing.station(0).completed(), [(7, Status::Success)]);
}

#[test]
fn what_comes_by_an_uplink_reaches_members_of_every_shard() {
    let mut near = shards();
    let wires = [0, 1].map(|at| add_uplink(&mut near[at], 0));
    let b = add(&mut near[1], 2, 0);
    move_transfers(&mut near, Lane::Answers);
    let mut far = Carrier::new(1);
    let wire = add_uplink(&mut far, 0);
    let c = add(&mut far, 3, 0);
    let qps = [
        station(&mut near[1], b).create_qp(),
        station(&mut far, c).create_qp(),
    ];
    let names = [
        station(&mut near[1], b).name(qps[0]),
        station(&mut far, c).name(qps[1]),
    ];
    station(&mut near[1], b).connect(qps[0], names[1]);
    station(&mut far, c).connect(qps[1], names[0]);
    let remote = station(&mut far, c).remote();
    let run_both = |near: &mut [Shard; 2], far: &mut Carrier| {
        for _ in 0..10 {
            run(far, NOW);
            wire.move_to(&wires[0]);
            run_all(near);
            wires[0].move_to(&wire);
            wires[1].move_to(&wire);
        }
    };
    stop(&mut far, c, 1);
    run_both(&mut near, &mut far);
    station(&mut near[1], b).post(qps[0], 1, SendOp::Write(remote), 64);
    run_both(&mut near, &mut far);
    assert_eq!(station(&mut near[1], b).hca.next_deadline(), None);
    go_on(&mut far, c, 2);
    run_both(&mut near, &mut far);
    let done = station(&mut near[1], b).completed();
    assert_eq!(done, [(1, Status::Success)]);
}
