//! Where a request goes: to another member, the same one, an uplink, the owner of the host, or nowhere.

use vrdma_switch::{PortId, Way};
use vrdma_verbs::unit::Request;
use vrdma_verbs::{Path, Source};
use vrdma_wire::Qpn;

use crate::host::Host;
use crate::member::Member;
use crate::members::Ends;
use crate::paths::NOWHERE;
use crate::port::Port;
use crate::turn::Turn;

impl<M: Member, P: Port> Host<M, P> {
    /// Takes a request to the member that owns its destination, and returns that member if it is on this host. A
    /// request for a destination that nobody owns is dropped, as on a wire: the requester's own timers tell its owner.
    pub(crate) fn carry(
        &mut self,
        turn: Turn<'_, M::View<'_>>,
        request: &mut Request<M::Region>,
    ) -> Option<PortId> {
        if request.destination == Qpn::MULTICAST {
            self.multiply(turn, request);
            return None;
        }
        let Some(to) = self.destination(turn.from, request) else {
            self.transmit(turn, request);
            return None;
        };
        if to == PortId(NOWHERE) {
            return None;
        }
        self.charge_ends(turn, to, request);
        if self.is_for_owner(to, request.destination) {
            self.hand_out(to, turn.memory, request);
        } else {
            self.pass(turn, to, request);
        }
        Some(to)
    }

    /// Returns the member that a request is for, [`NOWHERE`] if it is dropped, `None` if it leaves the host.
    /// Connections keep what the fabric said of their path.
    fn destination(&self, from: PortId, request: &Request<M::Region>) -> Option<PortId> {
        match request.path {
            Some(Path::Local(port)) if port != NOWHERE => return Some(PortId(port)),
            Some(Path::Wire(_)) => return None,
            _ => {}
        }
        let route = &request.route;
        let fabric = self.shared.read();
        match fabric.route(from, route.sgid, route.dgid) {
            Ok(Way::Port(port)) => Some(port),
            Ok(Way::Wire) => None,
            Err(_) => Some(PortId(NOWHERE)),
        }
    }

    /// Takes a request to a member of this host and the answer back, or sends it, with its payload, to the shard that
    /// has the member.
    pub(crate) fn pass(
        &mut self,
        turn: Turn<'_, M::View<'_>>,
        to: PortId,
        request: &mut Request<M::Region>,
    ) {
        if let Some(ends) = self.members.ends(turn.from, to, turn.now) {
            exchange(ends, turn, request);
            self.members.was_sent_to(to);
        } else {
            self.transfer(turn, to, request);
        }
    }
}

/// Carries a request of a member to another one, or to itself, and the answer back.
fn exchange<M: Member>(
    ends: Ends<'_, M>,
    turn: Turn<'_, M::View<'_>>,
    request: &Request<M::Region>,
) {
    let mut pair = ends.pair;
    let peer = pair.peer();
    let theirs = peer.memory();
    let theirs = M::view(&theirs);
    let answer = peer.deliver(&theirs, request, Source::Memory(turn.memory), turn.now);
    if let Some(response) = answer {
        pair.member()
            .respond(turn.memory, &response, Source::Memory(&theirs), turn.now);
    }
}
