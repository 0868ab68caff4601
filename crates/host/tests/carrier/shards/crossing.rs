//! Two shards with a ring of each lane between them, as the daemon has them, and two stations that talk across.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::*;

/// Transfers that fit a ring of the daemon.
const RING: usize = 512;

/// A shard, and the rings by which the other shard's transfers come.
pub(super) struct Shard {
    carrier: Carrier,
    rings: [VecDeque<Transfer<Station>>; 2],
}

impl Deref for Shard {
    type Target = Carrier;

    fn deref(&self) -> &Carrier {
        &self.carrier
    }
}

impl DerefMut for Shard {
    fn deref_mut(&mut self) -> &mut Carrier {
        &mut self.carrier
    }
}

/// Makes two shards that share the fabric.
pub(super) fn shards() -> [Shard; 2] {
    let shared = Arc::default();
    [0, 1].map(|id| {
        let among = Among {
            id: ShardId(id),
            shards: SHARDS,
            shared: Arc::clone(&shared),
        };
        Shard {
            carrier: Carrier::among(among, 1),
            rings: Default::default(),
        }
    })
}

/// Moves what waits in one lane of each of the two to the other; `true` if there was anything.
pub(super) fn move_transfers(hosts: &mut [Shard; 2], lane: Lane) -> bool {
    let [first, second] = hosts;
    move_all(first, second, lane) | move_all(second, first, lane)
}

/// Moves what waits in one lane from one shard to another; `true` if there was anything.
pub(super) fn move_all(from: &mut Shard, to: &mut Shard, lane: Lane) -> bool {
    let mut moved = 0;
    while move_some(from, to, lane, &mut moved) {}
    moved > 0
}

/// Does so in one turn of the receiver; `true` if there may be more.
pub(super) fn move_some(from: &mut Shard, to: &mut Shard, lane: Lane, moved: &mut usize) -> bool {
    let ring = &mut to.rings[lane as usize];
    while ring.len() < RING
        && let Some(transfer) = from.next_transfer(to.carrier.id(), lane)
    {
        ring.push_back(transfer);
    }
    let mut taken = 0;
    let come = ring.iter_mut().inspect(|_| taken += 1);
    let worked = to.carrier.take_from(from.id(), lane, come, NOW);
    ring.drain(..taken);
    *moved += taken;
    worked
}

/// Gives turns until nothing moves.
pub(super) fn run_all(hosts: &mut [Shard; 2]) {
    for _ in 0..10_000 {
        let mut moved = false;
        for host in hosts.iter_mut() {
            moved |= host.turn(NOW);
            moved |= host.flush(NOW);
        }
        moved |= move_transfers(hosts, Lane::Answers);
        moved |= move_transfers(hosts, Lane::Units);
        if !moved {
            return;
        }
    }
    panic!("the shards never come to rest");
}

/// A queue pair of each of two stations on different shards.
pub(super) struct Crossing {
    pub(super) hosts: [Shard; 2],
    pub(super) ports: [PortId; 2],
    pub(super) qps: [QpId; 2],
}

impl Crossing {
    pub(super) fn new() -> Self {
        let mut hosts = shards();
        let ports = [add(&mut hosts[0], 1, 0), add(&mut hosts[1], 2, 0)];
        let mut crossing = Self {
            qps: [0, 1].map(|at| station(&mut hosts[at], ports[at]).create_qp()),
            hosts,
            ports,
        };
        let names = [0, 1].map(|at| {
            let qp = crossing.qps[at];
            crossing.station(at).name(qp)
        });
        for at in [0, 1] {
            let qp = crossing.qps[at];
            crossing.station(at).connect(qp, names[1 - at]);
        }
        crossing
    }

    pub(super) fn station(&mut self, at: usize) -> &mut Station {
        station(&mut self.hosts[at], self.ports[at])
    }

    pub(super) fn post(&mut self, id: u64, op: SendOp<usize>, length: u32) {
        let qp = self.qps[0];
        self.station(0).post(qp, id, op, length);
    }
}
