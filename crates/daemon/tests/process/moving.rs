//! Adapters that move from shard to shard while their clients use them.

use vrdma_adapter::ShardId;
use vrdma_inventory::ShardOptions;
use vrdma_provider::layout::{SendHeader, opcode};
use vrdma_switch::PortId;

use crate::adapters::block_on;
use crate::client::{Client, Host, LONG, Memory, assert_works, connected, pair, write};

const SHARDS: u16 = 3;

fn three() -> Host {
    Host::with(2, &ShardOptions::unpinned(SHARDS))
}

fn move_to(host: &Host, adapter: u32, shard: u16) -> Result<(), String> {
    let moved = block_on(host.handle.move_adapter(PortId(adapter), ShardId(shard)));
    moved.map_err(|not_done| not_done.to_string())
}

/// One end counts in the other's memory by atomics, and none is lost or done twice.
#[test]
fn connections_go_on_wherever_their_adapters_are() {
    const ROUNDS: u64 = 60;
    let host = three();
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    let mut queues = connected(&a, &b, LONG);
    let count = Memory::new(&b, 0, 8);
    let old = Memory::new(&a, 0, 8);
    for round in 0..ROUNDS {
        let add = |id| SendHeader {
            opcode: opcode::ATOMIC_FETCH_AND_ADD,
            compare_add: 1,
            ..write(id, &count)
        };
        a.post_send(&mut queues.0, add(2 * round), old.buffer());
        let (adapter, shard) = (round % 2, round / 2 % u64::from(SHARDS));
        move_to(&host, adapter as u32, shard as u16).unwrap();
        a.post_send(&mut queues.0, add(2 * round + 1), old.buffer());
        for id in [2 * round, 2 * round + 1] {
            let entry = queues.0.wait();
            assert_eq!((entry.wr_id, entry.status), (id, 0));
        }
    }
    assert_eq!(u64::from(count.first()), 2 * ROUNDS);
    assert_works(&a, &b, &mut queues);
}

#[test]
fn clients_open_and_register_after_a_move() {
    let host = three();
    let early = Client::open(&host, 0);
    move_to(&host, 0, 2).unwrap();
    move_to(&host, 1, 2).unwrap();
    let late = Client::open(&host, 1);
    let mut queues = pair(&early, &late);
    assert_works(&early, &late, &mut queues);
    let objects = host.objects(0);
    assert!(objects[3] > 0, "its objects are counted: {objects:?}");
    drop((queues, early));
    while host.objects(0) != [0; 4] {
        std::thread::yield_now();
    }
}

/// A hello may arrive before the adapter does, or at the shard that it has left.
#[test]
fn clients_open_an_adapter_whenever_it_moves() {
    const MOVES: u16 = 200;
    let host = three();
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            for shard in 1..=MOVES {
                move_to(&host, 0, shard % SHARDS).unwrap();
            }
        });
        while !mover.is_finished() {
            drop(Client::open(&host, 0));
        }
        mover.join().unwrap();
    });
}

#[test]
fn moves_that_make_no_sense_change_nothing() {
    let host = three();
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    let mut queues = pair(&a, &b);
    assert!(move_to(&host, 0, SHARDS).is_err());
    assert!(move_to(&host, 7, 0).is_err());
    let place = host.handle.shard_of(PortId(0)).unwrap();
    move_to(&host, 0, place.0).unwrap();
    assert_works(&a, &b, &mut queues);
}
