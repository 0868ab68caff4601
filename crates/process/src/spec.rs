//! The control plane's description of a process adapter.

use std::net::IpAddr;
use std::sync::Arc;

use vrdma_provider::message::{AdapterReply, Name};
use vrdma_switch::{GroupId, PortId};
use vrdma_wire::{Gid, Mac};

/// A process adapter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessSpec {
    /// Its name, at most as long as [`Name`] takes.
    pub name: Arc<str>,
    /// The name of its port group, for programs that ask.
    pub portgroup: Arc<str>,
    /// The adapter's port at the switch.
    pub port: PortId,
    /// Its port group's number.
    pub group: GroupId,
    /// Ethernet address, from which node GUID and default GID follow.
    pub mac: Mac,
    /// Its IP address.
    pub ip: Option<IpAddr>,
}

impl ProcessSpec {
    /// The link-local GID of the MAC, and the GID of the IP address (RoCEv2 annex A17.4.1).
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

    /// Describes the adapter for a library.
    pub fn described(&self) -> AdapterReply {
        let mut ip = [0; 16];
        let ip_version = match self.ip {
            Some(IpAddr::V4(v4)) => {
                ip[..4].copy_from_slice(&v4.octets());
                4
            }
            Some(IpAddr::V6(v6)) => {
                ip = v6.octets();
                6
            }
            None => 0,
        };
        let mut guid = [0; 8];
        guid.copy_from_slice(&Gid::link_local(self.mac).0[8..]);
        AdapterReply {
            name: Name::new(&self.name).unwrap_or_default(),
            portgroup: Name::new(&self.portgroup).unwrap_or_default(),
            guid,
            ip,
            mac: self.mac.0,
            ip_version,
            reserved: 0,
        }
    }
}
