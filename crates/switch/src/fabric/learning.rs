//! Ports that learn their addresses: the first IPv4 and the first IPv6 one that they use.

use vrdma_wire::Gid;

use super::Fabric;
use crate::PortId;

impl Fabric {
    /// Notes an address that a port which learns its addresses uses on Ethernet. Returns what the port has of that
    /// family afterwards: this address, if it is its first and nobody else's.
    pub fn learn(&mut self, port: PortId, gid: Gid) -> Option<Gid> {
        if self.may_learn(port, gid)
            && let Some(group) = self.group(port)
        {
            self.claim(port, gid, group);
        }
        self.learned_beside(port, gid)
    }

    /// Whether an address is one that the port has learned, or may learn now.
    pub fn may_learn(&self, port: PortId, gid: Gid) -> bool {
        let Some(group) = self.group(port) else {
            return false;
        };
        let is_nobody_else_s = self.owner(gid, group).is_none_or(|by| by == port);
        let is_here = self.pins.learns(port) && !self.is_away(port);
        is_here && is_nobody_else_s && self.pins.admits(port, gid)
    }

    /// Returns the address that a port has learned of the family of `gid`.
    pub fn learned_beside(&self, port: PortId, gid: Gid) -> Option<Gid> {
        let is_v4 = gid.to_ipv4().is_some();
        self.learned(port)
            .find(|learned| learned.to_ipv4().is_some() == is_v4)
    }

    /// Returns the addresses that a port has learned, IPv4 first.
    pub fn learned(&self, port: PortId) -> impl Iterator<Item = Gid> {
        self.pins.learned(port)
    }

    /// Notes that another guest is behind a port and has used no address yet: if the port learns its addresses, it
    /// begins anew.
    pub fn forget_learned(&mut self, port: PortId) {
        if let Some(group) = self.group(port)
            && self.pins.forget_learned(port, group)
        {
            self.clear_gids(port);
            self.epoch += 1;
        }
    }
}

#[cfg(test)]
mod tests;
