//! Adapters with a limit, while their clients use them.

use std::num::NonZeroU64;

use vrdma_switch::Limit;

use crate::client::{Client, Host, LONG, Memory, assert_works, connected, write};

const MEBIBYTE: usize = 1 << 20;

#[test]
fn a_limit_that_is_set_and_taken_away_holds_up_and_loses_nothing() {
    let host = Host::with_adapters(2);
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    let mut queues = connected(&a, &b, LONG);
    let (from, to) = (Memory::new(&a, 7, MEBIBYTE), Memory::new(&b, 0, MEBIBYTE));
    let policy = &host.policies[0];
    a.post_send(&mut queues.0, write(0, &to), from.buffer());
    assert_eq!(queues.0.wait().status, 0);
    assert_eq!(policy.effects(&Limit::OUT).waits, 0, "without a limit");
    policy.set_rate(Limit::OutBits, NonZeroU64::new(400_000_000));
    for id in 1..5 {
        a.post_send(&mut queues.0, write(id, &to), from.buffer());
        let entry = queues.0.wait();
        assert_eq!((entry.wr_id, entry.status), (id, 0));
    }
    assert!(
        policy.effects(&Limit::OUT).waits > 0,
        "{:?}",
        policy.effects(&Limit::OUT)
    );
    // At this rate it would take twenty seconds.
    policy.set_rate(Limit::OutBits, NonZeroU64::new(400_000));
    a.post_send(&mut queues.0, write(5, &to), from.buffer());
    policy.set_rate(Limit::OutBits, None);
    assert_eq!((queues.0.wait().status, to.first()), (0, 7));
    assert_works(&a, &b, &mut queues);
    assert_eq!(host.policies[1].effects(&Limit::ALL).waits, 0);
}
