//! Multicast datagrams: a copy for every queue pair of this host that listens, and one for uplinks.

use std::net::Ipv4Addr;

use vrdma_switch::{Listener, PortId};
use vrdma_verbs::Time;
use vrdma_verbs::unit::Request;

use crate::host::Host;
use crate::limits::Sent;
use crate::member::Member;
use crate::port::Port;
use crate::turn::Turn;

impl<M: Member, P: Port> Host<M, P> {
    pub(crate) fn multiply(&mut self, turn: Turn<'_, M::View<'_>>, request: &Request<M::Region>) {
        let route = &request.route;
        let fabric = self.shared.read();
        let Ok(ports) = fabric.hear(turn.from, route.sgid, route.dgid) else {
            return;
        };
        let ports: Vec<_> = ports.collect();
        let leaves = fabric.leaves(turn.from);
        drop(fabric);
        for to in ports {
            if !self.admits(to, &Sent::of(request), turn.now) {
                continue;
            }
            if self.member(to).is_none() {
                self.transfer(turn, to, &mut request.clone());
                continue;
            }
            let copies = self.member(to).map(|member| member.fan_out(request));
            for mut copy in copies.unwrap_or_default() {
                self.pass(turn, to, &mut copy);
            }
        }
        if leaves {
            self.transmit(turn, request);
        }
    }

    /// Tells the fabric and the switches in front of uplinks what a member listens to, if that has
    /// changed. `ip` is the member's address.
    pub fn follow_groups(&mut self, port: PortId, ip: Option<Ipv4Addr>, now: Time) {
        let groups = self.members.get_mut(port).and_then(M::take_groups);
        let fabric = self.shared.read();
        let (Some(groups), Some(mac), Some(group)) = (groups, fabric.mac(port), fabric.group(port))
        else {
            return;
        };
        drop(fabric);
        let who = Listener { group, mac, ip };
        self.uplinks.reports.listen(port, who, &groups, now);
        let listens = self.shared.change(|fabric| fabric.listen(port, groups));
        if let Err(error) = listens
            && self.members.may_tell(port, now)
        {
            tracing::warn!("multicast does not reach an adapter: {error}");
        }
    }
}
