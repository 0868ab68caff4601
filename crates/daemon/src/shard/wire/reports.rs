//! What switches in front of raw uplinks have to know to pass multicast on: the groups of adapters that
//! have no kernel to tell them. Tunnels pass everything and are not told.

use std::net::IpAddr;

use vrdma_switch::{GroupId, Listener, PortId};
use vrdma_uplink::Hop;
use vrdma_verbs::Time;
use vrdma_wire::Gid;

use super::{Shard, Wires};
use crate::vm::fresh_seed;

impl Shard {
    /// An adapter listens to these groups from now on.
    pub(in crate::shard) fn tell_groups(&mut self, port: PortId, groups: &[Gid]) {
        let adapter = self.adapters.get(port.0 as usize).and_then(Option::as_ref);
        let Some(spec) = adapter.map(|adapter| adapter.spec()) else {
            return;
        };
        let ip = match spec.ip {
            Some(IpAddr::V4(ip)) => Some(ip),
            _ => None,
        };
        let who = Listener { mac: spec.mac, ip };
        let now = self.clock.now();
        self.wires.reports.listen(port, who, groups, now.0);
    }

    /// Somebody asks which groups are listened to.
    pub(super) fn hear_query(&mut self, group: GroupId, frame: &[u8]) {
        let now = self.clock.now();
        for number in 0..self.adapters.len() {
            let port = PortId(number as u32);
            if self.fabric.group(port) == Some(group) {
                // The low bits of a clock: nobody has to be kept from guessing them.
                let random = (fresh_seed() as u32).wrapping_mul(0x9e37_79b9);
                self.wires.reports.hear(port, frame, (now.0, random));
            }
        }
    }

    /// Queues the reports that are due.
    pub(super) fn send_reports(&mut self, now: Time) {
        let due = self.wires.reports.next_deadline();
        if due.is_none_or(|due| due > now.0) {
            return;
        }
        for (port, frame) in self.wires.reports.poll(now.0) {
            if let Some(group) = self.fabric.group(port) {
                self.wires.tell_switches(group, &frame);
            }
        }
    }
}

impl Wires {
    fn tell_switches(&mut self, group: GroupId, frame: &[u8]) {
        let raw = self.wires.iter_mut().flatten();
        for wire in raw.filter(|wire| !wire.end.is_tunnel) {
            if let Some(segment) = self.segments.of(group, false) {
                wire.end.port.send(Hop::to(segment), frame);
                wire.touched = true;
            }
        }
    }
}
