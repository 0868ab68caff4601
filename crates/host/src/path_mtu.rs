//! The largest packets of a member that fit the uplinks of its group.

use vrdma_adapter::ShardId;
use vrdma_switch::PortId;
use vrdma_wire::Mtu;

use crate::event::Event;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;
use crate::transfer::Transfer;

/// Bytes around the payload of a packet in an IP packet: IPv6, UDP and BTH headers, RETH with immediate data (the most
/// that comes with payload), ICRC.
const HEADERS: u32 = 40 + 8 + 12 + 20 + 4;

/// Most members that are told their path MTU in one turn, one or two tenths of a microsecond each: telling thousands in
/// the turn in which an interface changes would hold up everybody's messages.
const MEASURED_A_TURN: usize = 64;

/// Returns the largest path MTU whose packets fit into IP packets of this length.
fn fitting(ip_bytes: u32) -> Mtu {
    let codes = (1..=5).rev().filter_map(Mtu::from_code);
    let mut fitting = codes.filter(|mtu| mtu.bytes() + HEADERS <= ip_bytes);
    fitting.next().unwrap_or(Mtu::B256)
}

impl<M: Member, P: Port> Host<M, P> {
    /// Tells every member its path MTU: some now, the others in the next turns. Call it when uplinks come, go or change
    /// their MTU; a member whose messages stay on the host has the largest.
    pub fn measure(&mut self) {
        self.measuring = Some(PortId(0));
        self.go_on_measuring();
    }

    /// Tells some of the members that have yet to be told.
    pub(crate) fn go_on_measuring(&mut self) {
        let Some(first) = self.measuring else { return };
        let some = self.members_from(first).take(MEASURED_A_TURN);
        let ports: Vec<_> = some.map(|(port, _)| port).collect();
        let last = ports.last().filter(|_| ports.len() == MEASURED_A_TURN);
        self.measuring = last.map(|last| PortId(last.0 + 1));
        ports.into_iter().for_each(|port| self.measure_member(port));
    }

    pub(crate) fn measure_member(&mut self, port: PortId) {
        let Some(group) = self.shared.read().group(port) else {
            return;
        };
        let ip_bytes = self.uplinks.narrowest(group);
        let mtu = ip_bytes.map_or(Mtu::B4096, fitting);
        if self.members.set_mtu(port, mtu) {
            if self.id == ShardId::FIRST {
                self.events.push_back(Event::PathMtu { port, mtu });
            }
            self.tell_first(Transfer::PathMtu { port, mtu });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_and_headers_fit_the_wire() {
        let fitted = [576, 1450, 1500, 4096, 4180, 9000, 100].map(fitting);
        let expected = [
            Mtu::B256,
            Mtu::B1024,
            Mtu::B1024,
            Mtu::B2048,
            Mtu::B4096,
            Mtu::B4096,
            Mtu::B256,
        ];
        assert_eq!(fitted, expected);
    }
}
