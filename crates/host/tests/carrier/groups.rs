//! Limits of port groups, which all their stations share.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use vrdma_switch::{Limit, Policy};
use vrdma_verbs::Time;

use crate::world::*;

const NOW: Time = Time(1_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);
const GIGABIT: u64 = 1_000_000_000;

/// Adds three stations that each send to one other, all in a group with a limit.
fn limited_group(host: &mut Carrier, limit: Limit, length: u32) -> ([Greedy; 3], Arc<Policy>) {
    let group = Arc::<Policy>::default();
    group.set_rate(limit, NonZeroU64::new(GIGABIT));
    let greedy = [1, 3, 5].map(|number| {
        let ports = [number, number + 1].map(|number| add_limited(host, number, 0, &group));
        Greedy::between(host, ports, length)
    });
    (greedy, group)
}

#[test]
fn stations_share_what_their_group_may_send_and_receive() {
    for limit in [Limit::OutBits, Limit::InBits] {
        let mut host = Carrier::new(1);
        let (mut greedy, group) = limited_group(&mut host, limit, 256 << 10);
        let moved = work(&mut host, greedy.each_mut(), NOW, SECOND);
        assert_near(moved.iter().sum(), GIGABIT);
        for bytes in moved {
            let share = GIGABIT / 24;
            assert!(bytes.abs_diff(share) < share / 10, "{limit:?} {moved:?}");
        }
        let effects = group.effects(&[limit]);
        assert!(effects.waits > 100, "{effects:?}");
    }
}

#[test]
fn a_stations_own_limit_holds_beside_its_groups() {
    let mut host = Carrier::new(1);
    let (mut greedy, _) = limited_group(&mut host, Limit::OutBits, 32 << 10);
    limit(&mut host, greedy[0].port, Limit::OutBits, GIGABIT / 10);
    let moved = work(&mut host, greedy.each_mut(), NOW, SECOND);
    assert_near(moved[0], GIGABIT / 10);
    assert_near(moved.iter().sum(), GIGABIT);
}
