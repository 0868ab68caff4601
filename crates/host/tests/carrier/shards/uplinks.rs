//! What the first shard takes from uplinks for members of other shards, and what those send by uplinks.

use vrdma_host::{Marks, Segment};
use vrdma_switch::GroupId;

use super::*;

#[test]
fn the_first_shard_counts_what_is_dropped_for_groups_of_others() {
    let mut hosts = shards();
    let wire = add_uplink(&mut hosts[0], 0);
    let port = add(&mut hosts[1], 2, 0);
    run_all(&mut hosts);
    wire.arrive((Segment::Vlan(10), vec![0; 60]));
    run_all(&mut hosts);
    let counted = |hosts: &[Shard; 2]| {
        let counts = hosts.each_ref().map(|host| host.group_counts(GroupId(0)));
        counts.map(|counts| counts.map_or(0, |counts| counts.by_reason().values().sum()))
    };
    assert_eq!(counted(&hosts), [1, 0]);
    hosts[1].remove(port);
    run_all(&mut hosts);
    assert_eq!(counted(&hosts), [0, 0], "the group is gone");
}

#[test]
fn a_group_whose_last_member_moved_away_leaves_no_marks() {
    let mut hosts = shards();
    let wire = add_uplink(&mut hosts[1], 0);
    let port = add(&mut hosts[1], 2, 0);
    let member = hosts[1].send_away(port, ShardId(0)).unwrap();
    let at = attachment(&member, 2, 0);
    hosts[0].adopt(at, member, NOW);
    run_all(&mut hosts);
    hosts[0].remove(port);
    // Another group with that number.
    let newcomer = Station::new(3, gid(3));
    let mut at = attachment(&newcomer, 3, 0);
    let port = at.port;
    at.marks = Marks {
        vlan: Some(77),
        vni: None,
    };
    hosts[1].add(at, newcomer).unwrap();
    let mut far = Station::new(9, gid(9));
    let peer = far.create_qp();
    let peer = far.name(peer);
    let newcomer = station(&mut hosts[1], port);
    let qp = newcomer.create_qp();
    let remote = newcomer.remote();
    newcomer.connect(qp, peer);
    newcomer.post(qp, 1, SendOp::Write(remote), 8);
    run_all(&mut hosts);
    let sent = wire.take_sent().into_iter().map(|(segment, _)| segment);
    assert_eq!(sent.collect::<Vec<_>>(), [Segment::Vlan(77)]);
}
