//! Adapters whose limits change while their clients use them.

use std::num::NonZeroU64;

use vrdma_switch::Limit;

use crate::client::{Client, Host, LONG, Memory, Queues, assert_works, connected, write};

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
    // At this rate the write would take twenty seconds.
    policy.set_rate(Limit::OutBits, NonZeroU64::new(400_000));
    a.post_send(&mut queues.0, write(5, &to), from.buffer());
    policy.set_rate(Limit::OutBits, None);
    assert_eq!((queues.0.wait().status, to.first()), (0, 7));
    assert_works(&a, &b, &mut queues);
    assert_eq!(host.policies[1].effects(&Limit::ALL).waits, 0);
}

/// Does this many writes, one after the other.
fn write_all(from: &Client, queues: &mut Queues, ends: (&Memory, &Memory), times: u64) {
    for id in 0..times {
        from.post_send(queues, write(id, ends.1), ends.0.buffer());
        let entry = queues.wait();
        assert_eq!((entry.wr_id, entry.status), (id, 0));
    }
}

#[test]
fn limits_of_who_receives_and_of_messages_hold_up_who_sends() {
    let host = Host::with_adapters(3);
    let [a, b, c] = [0, 1, 2].map(|number| Client::open(&host, number));
    let mut to_b = connected(&a, &b, LONG);
    let mut to_c = connected(&a, &c, LONG);
    let from = Memory::new(&a, 7, MEBIBYTE);
    let [at_b, at_c] = [&b, &c].map(|client| Memory::new(client, 0, MEBIBYTE));
    let policy = &host.policies[1];
    policy.set_rate(Limit::InBits, NonZeroU64::new(400_000_000));
    write_all(&a, &mut to_b.0, (&from, &at_b), 4);
    let waits = policy.effects(&[Limit::InBits]).waits;
    assert!(waits > 0, "who sends to it waits");
    // At this rate the write would take twenty seconds, in which another adapter is written to.
    policy.set_rate(Limit::InBits, NonZeroU64::new(400_000));
    a.post_send(&mut to_b.0, write(9, &at_b), from.buffer());
    write_all(&a, &mut to_c.0, (&from, &at_c), 4);
    policy.set_rate(Limit::InBits, None);
    assert_eq!(to_b.0.wait().status, 0);
    // Each write has a tenth of a second, longer than it takes on a busy machine.
    policy.set_rate(Limit::InOps, NonZeroU64::new(10));
    (0..8).for_each(|id| a.post_send(&mut to_b.0, write(id, &at_b), from.buffer()));
    (0..8).for_each(|_| assert_eq!(to_b.0.wait().status, 0));
    assert!(policy.effects(&[Limit::InOps]).waits > 0);
    policy.set_rate(Limit::InOps, None);
    assert_works(&a, &b, &mut to_b);
    for unlimited in [0, 2] {
        let effects = host.policies[unlimited].effects(&Limit::ALL);
        assert_eq!(effects.waits, 0);
    }
}

#[test]
fn a_limit_of_the_port_group_is_one_for_all_its_adapters() {
    let host = Host::with_adapters(4);
    let [a, b, c, d] = [0, 1, 2, 3].map(|number| Client::open(&host, number));
    let mut pairs = [connected(&a, &b, LONG), connected(&c, &d, LONG)];
    let memories = [(&a, &b), (&c, &d)]
        .map(|(from, to)| (Memory::new(from, 7, MEBIBYTE), Memory::new(to, 0, MEBIBYTE)));
    let group = host.policies[0].group().unwrap();
    group.set_rate(Limit::OutBits, NonZeroU64::new(800_000_000));
    for _ in 0..4 {
        for ((client, queues), (from, to)) in [&a, &c].into_iter().zip(&mut pairs).zip(&memories) {
            client.post_send(&mut queues.0, write(1, to), from.buffer());
        }
        for queues in &mut pairs {
            assert_eq!(queues.0.wait().status, 0);
        }
    }
    let of_adapters = [0, 2].map(|number| host.policies[number].effects(&Limit::OUT));
    let waits: u64 = of_adapters.iter().map(|effects| effects.waits).sum();
    assert_eq!(group.effects(&Limit::OUT).waits, waits);
    assert!(waits > 0, "{of_adapters:?}");
}
