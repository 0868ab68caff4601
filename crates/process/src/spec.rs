//! What the control plane says of an adapter of processes.

use std::net::IpAddr;

use vrdma_switch::{GroupId, PortId};
use vrdma_wire::{Gid, Mac};

/// An adapter of processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessSpec {
    /// Its name, at most as long as [`Name`](vrdma_provider::message::Name) takes.
    pub name: String,
    /// The name of its port group, for programs that ask.
    pub portgroup: String,
    /// Its number in the switch.
    pub port: PortId,
    /// Its port group's number.
    pub group: GroupId,
    /// Ethernet address, from which node GUID and default GID follow.
    pub mac: Mac,
    /// Its IP address.
    pub ip: Option<IpAddr>,
}

impl ProcessSpec {
    /// The link-local GID of its MAC, and that of its IP address (RoCEv2 annex A17.4.1).
    pub fn addresses(&self) -> Vec<Gid> {
        let given = self.ip.map(|ip| match ip {
            IpAddr::V4(v4) => Gid::from_ipv4(v4),
            IpAddr::V6(v6) => Gid(v6.octets()),
        });
        [Gid::link_local(self.mac)]
            .into_iter()
            .chain(given)
            .collect()
    }
}
