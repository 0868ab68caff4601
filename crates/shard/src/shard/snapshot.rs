//! State and counters of all adapters, collected a few adapters a turn: thousands of them in one turn would hold up
//! messages for milliseconds.

use std::collections::VecDeque;
use std::net::IpAddr;

use vrdma_switch::PortId;
use vrdma_threads::Reply;
use vrdma_wire::Gid;

use super::adapter::Adapter;
use super::{Shard, stats};
use crate::plane::AdapterSnapshot;

/// Adapters that are collected in one turn, a microsecond or two each.
const ADAPTERS_A_TURN: usize = 16;

/// A snapshot that is being made.
pub(super) struct Job {
    /// The first adapter that was not collected.
    next: PortId,
    told: Vec<AdapterSnapshot>,
    reply: Reply<Vec<AdapterSnapshot>>,
}

/// The snapshots that were asked for, made one after the other. The mailbox bounds their number.
#[derive(Default)]
pub(super) struct Snapshots {
    jobs: VecDeque<Job>,
}

impl Snapshots {
    pub(super) fn begin(&mut self, reply: Reply<Vec<AdapterSnapshot>>) {
        self.jobs.push_back(Job {
            next: PortId(0),
            told: Vec::new(),
            reply,
        });
    }
}

impl Shard {
    /// Continues the oldest snapshot; `true` if there is one. An adapter that comes or goes meanwhile may be in it or
    /// not. A caller that is gone is no error.
    pub(super) fn go_on_with_snapshot(&mut self) -> bool {
        let Some(mut job) = self.snapshots.jobs.pop_front() else {
            return false;
        };
        let some = self.host.members_from(job.next).take(ADAPTERS_A_TURN);
        let before = job.told.len();
        job.told
            .extend(some.map(|(port, adapter)| self.snapshot(port, adapter)));
        match job.told[before..].last() {
            Some(last) => {
                job.next = PortId(last.port.0 + 1);
                self.snapshots.jobs.push_front(job);
            }
            None => {
                let _ = job.reply.send(job.told);
            }
        }
        true
    }

    fn snapshot(&self, port: PortId, adapter: &Adapter) -> AdapterSnapshot {
        let now = self.clock.now();
        let mut rdma = stats::stats(adapter);
        rdma.log_lines_left_out += self.host.log_lines_left_out(port);
        let dropped = &mut rdma.counters.drops;
        let lost = self.host.drops(port);
        let lost = lost.map(|(reason, count)| (stats::no_route(reason), count));
        let untaken = self.host.untaken(port);
        let untaken = untaken.map(|(reason, count)| (stats::untaken(reason), count));
        for (reason, count) in lost.chain(untaken) {
            *dropped.entry(reason.to_owned()).or_default() += count;
        }
        let learned = self.host.learned(port);
        rdma.learned = learned.iter().map(address).collect();
        rdma.fault = rdma.fault.or_else(|| self.host.fault(port, now));
        let mut snapshot = AdapterSnapshot { port, rdma };
        snapshot.set_offered(self.cm.offered(port));
        snapshot
    }
}

fn address(gid: &Gid) -> IpAddr {
    gid.to_ipv6().to_canonical()
}
