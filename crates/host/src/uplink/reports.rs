//! What switches in front of raw uplinks have to know to pass multicast on: the groups of adapters that
//! have no kernel to tell them. Tunnels pass everything and are not told.

use vrdma_switch::{GroupId, Listener, PortId, Reports};
use vrdma_verbs::Time;
use vrdma_wire::Gid;

use super::Uplinks;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;

/// The reports of all adapters, and when the next one is due: only those that listen to something are
/// looked at, and only when something changes.
#[derive(Default)]
pub(crate) struct ReportsDue {
    reports: Reports,
    /// May be too early, never too late.
    due: Option<Time>,
}

impl ReportsDue {
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    pub(super) fn forget(&mut self, port: PortId) {
        self.reports.forget(port);
    }

    pub(super) fn tell_again(&mut self, now: Time) {
        self.reports.tell_again(now.0);
        self.look_up_deadline();
    }

    pub(crate) fn listen(&mut self, port: PortId, who: Listener, groups: &[Gid], now: Time) {
        self.reports.listen(port, who, groups, now.0);
        self.look_up_deadline();
    }

    fn look_up_deadline(&mut self) {
        self.due = self.reports.next_deadline().map(Time);
    }
}

impl<M: Member, P: Port> Host<M, P> {
    /// Somebody on an uplink asks which groups are listened to.
    pub fn hear_query(&mut self, group: GroupId, frame: &[u8], now: Time) {
        let due = &mut self.uplinks.reports;
        let listeners: Vec<_> = due.reports.listeners().collect();
        for port in listeners {
            if self.shared.read().group(port) == Some(group) {
                let random = self.random.u32(..);
                due.reports.hear(port, frame, (now.0, random));
            }
        }
        due.look_up_deadline();
    }

    /// Queues the reports that are due.
    pub(super) fn send_reports(&mut self, now: Time) {
        let due = &mut self.uplinks.reports;
        if due.next_deadline().is_none_or(|due| due > now) {
            return;
        }
        let frames = due.reports.poll(now.0);
        due.look_up_deadline();
        for (port, frame) in frames {
            let group = self.shared.read().group(port);
            if let Some(group) = group {
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
