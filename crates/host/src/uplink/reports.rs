//! What switches in front of raw uplinks have to know to pass multicast on: the groups of adapters that
//! have no kernel to tell them. Tunnels pass everything and are not told.

use vrdma_switch::{GroupId, PortId};
use vrdma_verbs::Time;

use super::Uplinks;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;

impl<M: Member, P: Port> Host<M, P> {
    /// Somebody on an uplink asks which groups are listened to.
    pub fn hear_query(&mut self, group: GroupId, frame: &[u8], now: Time) {
        for number in 0..self.members.len() {
            let port = PortId(number as u32);
            if self.fabric.group(port) == Some(group) {
                let random = self.random.u32(..);
                self.uplinks.reports.hear(port, frame, (now.0, random));
            }
        }
    }

    /// Queues the reports that are due.
    pub(super) fn send_reports(&mut self, now: Time) {
        let due = self.uplinks.reports.next_deadline();
        if due.is_none_or(|due| due > now.0) {
            return;
        }
        for (port, frame) in self.uplinks.reports.poll(now.0) {
            if let Some(group) = self.fabric.group(port) {
                self.uplinks.tell_switches(group, &frame);
            }
        }
    }
}

impl<P: Port> Uplinks<P> {
    fn tell_switches(&mut self, group: GroupId, frame: &[u8]) {
        let raw = self.all.iter_mut().flatten();
        for uplink in raw.filter(|uplink| !uplink.is_tunnel) {
            if let Some(segment) = self.segments.of(group, false) {
                uplink.send(segment, frame);
            }
        }
    }
}
