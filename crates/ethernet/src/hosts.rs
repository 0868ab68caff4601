//! Ports without a guest: adapters of processes, which have no kernel that answers for their addresses or resolves
//! others.

use std::collections::{BTreeMap, HashMap};

use vrdma_switch::{GroupId, Host, Neighbour, PortId, Reports, UplinkId, sender};
use vrdma_threads::{Outbox, Snooped};

use super::exchange::{Exchange, framed};

/// Answers that may wait for the end of a batch; further questions get none and are asked again.
const ANSWERS_MAX: usize = 256;

/// All ports without a guest.
pub(super) struct Hosts {
    hosts: HashMap<PortId, (GroupId, Host)>,
    /// Number of such ports, for each group that has any.
    groups: BTreeMap<GroupId, usize>,
    answers: Vec<(PortId, Vec<u8>)>,
    /// Outbox to each shard.
    says: Vec<Outbox<Snooped>>,
}

impl Hosts {
    pub(super) fn new(says: Vec<Outbox<Snooped>>) -> Self {
        Self {
            hosts: HashMap::new(),
            groups: BTreeMap::new(),
            answers: Vec::new(),
            says,
        }
    }

    pub(super) fn insert(&mut self, port: PortId, group: GroupId, host: Host) {
        self.remove(port);
        self.hosts.insert(port, (group, host));
        *self.groups.entry(group).or_default() += 1;
    }

    pub(super) fn remove(&mut self, port: PortId) {
        let Some((group, _)) = self.hosts.remove(&port) else {
            return;
        };
        if let Some(members) = self.groups.get_mut(&group) {
            *members -= 1;
            if *members == 0 {
                self.groups.remove(&group);
            }
        }
    }

    /// Handles a frame for a port: it may be a question if no kernel is behind the port.
    pub(super) fn ask(&mut self, port: PortId, frame: &[u8]) {
        let Some((_, host)) = self.hosts.get(&port) else {
            return;
        };
        let answer = host.answer(frame);
        let room = self.answers.len() < ANSWERS_MAX;
        self.answers
            .extend(answer.filter(|_| room).map(|answer| (port, answer)));
    }

    /// Tells the shards about a frame from an uplink, if a port may need it: the place of its sender, or a query for
    /// multicast listeners. A shard that was too busy to be told asks again, as do those that ask it.
    pub(super) fn hear(&self, group: GroupId, uplink: UplinkId, frame: &[u8]) {
        let snooped = if let Some((gid, mac)) = sender(frame) {
            let neighbour = Neighbour { mac, uplink };
            Snooped::Address {
                group,
                gid,
                neighbour,
            }
        } else if Reports::is_query(frame) {
            let frame = frame.into();
            Snooped::Query { group, frame }
        } else {
            return;
        };
        if self.groups.contains_key(&group) {
            for shard in &self.says {
                let _ = shard.send(snooped.clone());
            }
        }
    }
}

impl Exchange {
    /// Sends the answers that are due, as if they came from the ports that were asked.
    pub(super) fn answer(&mut self) {
        for (port, frame) in std::mem::take(&mut self.hosts.answers) {
            let mut framed = framed(&frame);
            let end = framed.len();
            // The buffer may still hold unsorted frames.
            std::mem::swap(&mut self.buffer, &mut framed);
            let now = self.started.elapsed().as_nanos() as u64;
            self.route(port, 0..end, now);
            self.deliver();
            std::mem::swap(&mut self.buffer, &mut framed);
        }
    }
}
