//! Membership reports for switches in front of raw uplinks, so that they pass multicast on: the groups of adapters that
//! have no kernel to report them. Tunnels pass everything and get no reports.

use vrdma_switch::{GroupId, Listener, PortId, Reports};
use vrdma_verbs::Time;
use vrdma_wire::Gid;

use super::Uplinks;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;

/// The reports of all adapters, by the host's clock.
#[derive(Default)]
pub(crate) struct ReportsDue {
    reports: Reports,
}

impl ReportsDue {
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.reports.next_deadline().map(Time)
    }

    pub(super) fn forget(&mut self, port: PortId) {
        self.reports.forget(port);
    }

    pub(super) fn tell_again(&mut self, now: Time) {
        self.reports.tell_again(now.0);
    }

    pub(crate) fn listen(&mut self, port: PortId, who: Listener, groups: &[Gid], now: Time) {
        self.reports.listen(port, who, groups, now.0);
    }
}

impl<M: Member, P: Port> Host<M, P> {
    /// Takes a query from an uplink for the groups that are listened to.
    pub fn hear_query(&mut self, group: GroupId, frame: &[u8], now: Time) {
        let random = &mut self.random;
        let reports = &mut self.uplinks.reports.reports;
        reports.hear(group, frame, now.0, || random.u32(..));
    }

    /// Queues the reports that are due.
    pub(super) fn send_reports(&mut self, now: Time) {
        let due = &mut self.uplinks.reports;
        if due.next_deadline().is_none_or(|due| due > now) {
            return;
        }
        for (port, frame) in due.reports.poll(now.0) {
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
