//! State and counters of all ports, collected a few ports per turn: thousands of them in one turn would hold up frames
//! for milliseconds.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vrdma_api::EthernetStats;
use vrdma_switch::{Bridge, PortId};
use vrdma_threads::Reply;

use super::link::Link;

/// Ports that are collected in one turn, a microsecond or two each.
const LINKS_A_TURN: usize = 16;

/// Content of a snapshot.
type Told = Vec<(PortId, EthernetStats)>;

/// A snapshot in progress.
struct Job {
    /// The first port that was not collected yet.
    next: PortId,
    told: Told,
    reply: Reply<Told>,
}

/// Snapshots that were requested, made one after the other. The inbox bounds their number.
#[derive(Default)]
pub(super) struct Snapshots {
    jobs: VecDeque<Job>,
}

impl Snapshots {
    pub(super) fn begin(&mut self, reply: Reply<Told>) {
        self.jobs.push_back(Job {
            next: PortId(0),
            told: Vec::new(),
            reply,
        });
    }

    /// Returns how long the thread may sleep: not at all while a snapshot is requested.
    pub(super) fn patience(&self) -> Option<Duration> {
        (!self.jobs.is_empty()).then_some(Duration::ZERO)
    }

    /// Goes on with the oldest snapshot. A port that comes or goes meanwhile may be in it or not. An asker that is gone
    /// is no error.
    pub(super) fn go_on(&mut self, links: &BTreeMap<PortId, Link>, bridge: &Bridge) {
        let Some(mut job) = self.jobs.pop_front() else {
            return;
        };
        let some = links.range(job.next..).take(LINKS_A_TURN);
        let before = job.told.len();
        job.told
            .extend(some.map(|(port, link)| (*port, link.stats(bridge))));
        match job.told[before..].last() {
            Some(last) => {
                job.next = PortId(last.0.0 + 1);
                self.jobs.push_front(job);
            }
            None => {
                let _ = job.reply.send(job.told);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use vrdma_threads::socket::BoundSocket;

    use super::*;

    fn link(folder: &std::path::Path, port: PortId) -> Link {
        let name = format!("vm{}", port.0);
        let socket = BoundSocket::bind(&folder.join(&name), 0o600).unwrap();
        let name = name.parse().unwrap();
        Link::of_guest(port, name, socket, Default::default(), None)
    }

    #[test]
    fn a_turn_tells_of_a_few_ports_and_all_are_told_of() {
        const LINKS: u32 = 40;
        let folder = tempfile::tempdir().unwrap();
        let ports = (1..=LINKS).map(PortId);
        let links = ports.map(|port| (port, link(folder.path(), port)));
        let mut links: BTreeMap<_, _> = links.collect();
        let mut snapshots = Snapshots::default();
        let (reply, mut told) = oneshot::channel();
        assert_eq!(snapshots.patience(), None);
        snapshots.begin(reply);
        let mut turns = 0;
        let told = loop {
            snapshots.go_on(&links, &Bridge::new());
            turns += 1;
            // A port that was collected, and one that was not.
            links.remove(&PortId(1));
            links.remove(&PortId(LINKS));
            if let Ok(told) = told.try_recv() {
                break told;
            }
            assert_eq!(snapshots.patience(), Some(Duration::ZERO));
        };
        assert_eq!(turns, LINKS as usize / LINKS_A_TURN + 2);
        let told: Vec<_> = told.into_iter().map(|of| of.0).collect();
        assert_eq!(told, (1..LINKS).map(PortId).collect::<Vec<_>>());
        assert_eq!(snapshots.patience(), None);
    }
}
