//! Lost and repeated units: everything happens exactly once, in order.

use std::time::Duration;

use vrdma_driver::work::SendWork;
use vrdma_driver::{Pair, Unit};

const WORD: u64 = 8 - 0x123 % 8;

/// Loses about one unit in `one_in`; `seed` decides which.
fn lossy(pair: &mut Pair, seed: u64, one_in: u64) {
    let mut state = seed;
    pair.fabric.lose(move |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33).is_multiple_of(one_in)
    });
}

#[test]
fn sends_arrive_once_and_in_order_however_much_is_lost() {
    for seed in 0..20 {
        let mut pair = Pair::new();
        lossy(&mut pair, seed, 4);
        for id in 0..30 {
            pair.receive(id, id * 64, 64);
        }
        for id in 0..30 {
            let request = SendWork::send(id).sge(pair.a.sge(id * 64, 64));
            pair.send(&request);
        }
        pair.fabric.pass(Duration::from_secs(20));
        let ids: Vec<_> = pair
            .received()
            .iter()
            .map(|done| (done.id, done.status))
            .collect();
        assert_eq!(
            ids,
            (0..30).map(|id| (id, 0)).collect::<Vec<_>>(),
            "seed {seed}"
        );
        let ids: Vec<_> = pair
            .sent()
            .iter()
            .map(|done| (done.id, done.status))
            .collect();
        assert_eq!(
            ids,
            (0..30).map(|id| (id, 0)).collect::<Vec<_>>(),
            "seed {seed}"
        );
        assert_eq!(pair.bytes_of_b(0, 30 * 64), pair.bytes_of_a(0, 30 * 64));
    }
}

#[test]
fn atomics_happen_once_however_much_is_lost() {
    for seed in 0..20 {
        let mut pair = Pair::new();
        let ram = &pair.fabric[1].ram;
        pair.b.buffer.write(ram, WORD, &0u64.to_le_bytes());
        lossy(&mut pair, seed, 8);
        for id in 0..20 {
            let (addr, rkey) = pair.b.remote(WORD);
            let request = SendWork::fetch_add(id, addr, rkey, 1);
            pair.send(&request.sge(pair.a.sge(id * 8, 8)));
        }
        pair.fabric.pass(Duration::from_secs(20));
        let sent = pair.sent();
        assert_eq!(sent.len(), 20, "seed {seed}");
        assert!(sent.iter().all(|done| done.status == 0), "seed {seed}");
        let words = pair.bytes_of_a(0, 160);
        let words = words
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        assert_eq!(
            words.collect::<Vec<_>>(),
            (0..20).collect::<Vec<_>>(),
            "seed {seed}"
        );
        assert_eq!(pair.bytes_of_b(WORD, 8), 20u64.to_le_bytes());
    }
}

#[test]
fn a_lost_answer_to_a_read_is_asked_for_again() {
    let mut pair = Pair::new();
    let mut left = 1;
    pair.fabric.lose(move |unit| {
        let lost = matches!(unit, Unit::Response(_)) && left > 0;
        left -= u32::from(lost);
        lost
    });
    let (addr, rkey) = pair.b.remote(0);
    pair.send(&SendWork::read(1, addr, rkey).sge(pair.a.sge(0, 30_000)));
    assert_eq!(pair.sent(), []);
    pair.fabric.pass(Duration::from_secs(1));
    assert_eq!(pair.sent()[0].status, 0);
    assert_eq!(pair.bytes_of_a(0, 30_000), pair.bytes_of_b(0, 30_000));
    assert_eq!(pair.fabric[0].device.snapshot().counters.timeouts, 1);
}
