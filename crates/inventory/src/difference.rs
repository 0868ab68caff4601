//! The difference between an object and the configuration, as a value that can be kept and restored.
//!
//! ```text
//!   configuration ─────────────┐
//!                              ├── follow ──► the inventory as it was
//!   differences, one an object ┘
//! ```
//! A difference says what the object is now, and not how it became so: differences together are free of conflicts, in
//! any order. If the configuration was edited meanwhile and contradicts one, the configuration has the last word.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use vrdma_api::{
    AdapterRequest, Endpoint, LimitsChange, Name, Origin, PeerRequest, PortGroupChange,
    PortGroupRequest, UplinkRequest,
};

use super::inventory::{Inventory, Refusal};

/// An object that requests add, change or remove.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// A port group.
    PortGroup(Name),
    /// An uplink.
    Uplink(Name),
    /// The other end of a tunnel.
    Peer(Name, Endpoint),
    /// An adapter.
    Adapter(Name),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortGroup(name) => write!(f, "port group {name}"),
            Self::Uplink(name) => write!(f, "uplink {name}"),
            Self::Peer(uplink, address) => write!(f, "peer {address} of uplink {uplink}"),
            Self::Adapter(name) => write!(f, "adapter {name}"),
        }
    }
}

/// What an object is now, if that is not what the configuration says; see the module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// The object is gone.
    Removed(Object),
    /// A port group of the configuration, with other limits.
    PortGroupLimits(Name, PortGroupChange),
    /// A port group.
    PortGroup(PortGroupRequest),
    /// An uplink.
    Uplink(UplinkRequest),
    /// A peer.
    Peer(PeerRequest),
    /// An adapter, and its origin.
    Adapter(AdapterRequest, Origin),
}

impl Difference {
    /// The object that this is a difference of.
    pub fn object(&self) -> Object {
        match self {
            Self::Removed(object) => object.clone(),
            Self::PortGroupLimits(name, _) => Object::PortGroup(name.clone()),
            Self::PortGroup(request) => Object::PortGroup(request.name.clone()),
            Self::Uplink(request) => Object::Uplink(request.name.clone()),
            Self::Peer(request) => Object::Peer(request.uplink.clone(), request.address),
            Self::Adapter(request, _) => Object::Adapter(request.name.clone()),
        }
    }
}

impl Inventory {
    /// Returns all objects.
    pub fn objects(&self) -> BTreeSet<Object> {
        let groups = self.portgroups().into_iter();
        let uplinks = self.uplinks().map(|(_, uplink)| uplink.name);
        let peers = self.peers().into_iter().map(|peer| peer.request);
        let adapters = self.ports().map(|(name, _)| name.clone());
        groups
            .map(|group| Object::PortGroup(group.name))
            .chain(uplinks.map(Object::Uplink))
            .chain(peers.map(|peer| Object::Peer(peer.uplink, peer.address)))
            .chain(adapters.map(Object::Adapter))
            .collect()
    }

    /// Returns one object as it is now.
    pub fn difference(&self, object: &Object) -> Difference {
        let found = match object {
            Object::PortGroup(name) => self.portgroup_difference(name),
            Object::Uplink(name) => self.uplink_request(name).map(Difference::Uplink),
            Object::Peer(uplink, address) => {
                let mut peers = self.peers().into_iter().map(|peer| peer.request);
                let peer = peers.find(|it| it.uplink == *uplink && it.address == *address);
                peer.map(Difference::Peer)
            }
            Object::Adapter(name) => self.adapter_difference(name),
        };
        found.unwrap_or_else(|| Difference::Removed(object.clone()))
    }

    fn portgroup_difference(&self, name: &Name) -> Option<Difference> {
        let (request, origin) = self.portgroup_request(name)?;
        Some(match origin {
            Origin::Runtime => Difference::PortGroup(request),
            Origin::Config => Difference::PortGroupLimits(
                request.name,
                PortGroupChange {
                    limits: LimitsChange::to(request.limits),
                    weight: Some(request.weight),
                },
            ),
        })
    }

    fn adapter_difference(&self, name: &Name) -> Option<Difference> {
        let adapter = self.adapter(name).ok()?;
        let (users, groups) = self.people_of(name)?;
        let request = AdapterRequest {
            name: adapter.name,
            portgroup: adapter.portgroup,
            mac: Some(adapter.mac),
            doorbells: adapter.doorbells,
            kind: adapter.kind,
            ip: adapter.ip,
            shard: adapter.shard,
            away: adapter.away,
            limits: adapter.limits,
            weight: adapter.weight,
            users,
            groups,
        };
        Some(Difference::Adapter(request, adapter.origin))
    }

    /// Restores the inventory from the configuration and the differences. Returns the objects whose differences
    /// contradict the configuration, and why.
    pub fn follow(&mut self, differences: &[Difference]) -> Vec<(Object, Refusal)> {
        for difference in differences {
            self.make_room(&difference.object(), difference);
        }
        let mut refused = Vec::new();
        // Adapters and peers come last: they need the others.
        let rank = |difference: &Difference| match difference {
            Difference::Removed(_) => 0,
            Difference::PortGroup(_) | Difference::PortGroupLimits(..) => 1,
            Difference::Uplink(_) => 2,
            Difference::Peer(_) | Difference::Adapter(..) => 3,
        };
        let mut in_order: Vec<_> = differences.iter().collect();
        in_order.sort_by_key(|difference| rank(difference));
        for difference in in_order {
            if let Err(refusal) = self.restore(difference) {
                refused.push((difference.object(), refusal));
            }
        }
        refused
    }

    /// Removes an object of the configuration before its difference is applied. Port groups that are to be removed come
    /// last, when they are empty.
    fn make_room(&mut self, object: &Object, difference: &Difference) {
        // An object that does not exist needs no room.
        match object {
            Object::Adapter(name) => drop(self.remove_adapter(name)),
            Object::Peer(uplink, address) => drop(self.remove_peer(uplink, *address)),
            Object::Uplink(name) => drop(self.remove_uplink(name)),
            Object::PortGroup(name) if matches!(difference, Difference::PortGroup(_)) => {
                drop(self.remove_portgroup(name));
            }
            Object::PortGroup(_) => {}
        }
    }

    fn restore(&mut self, difference: &Difference) -> Result<(), Refusal> {
        match difference {
            Difference::Removed(Object::PortGroup(name)) => self.remove_portgroup(name),
            Difference::Removed(_) => Ok(()),
            Difference::PortGroupLimits(name, change) => {
                self.change_portgroup(name, change).map(drop)
            }
            Difference::PortGroup(request) => {
                self.add_portgroup(request, Origin::Runtime).map(drop)
            }
            Difference::Uplink(request) => self.add_uplink(request, Origin::Runtime).map(drop),
            Difference::Peer(request) => self.add_peer(request, Origin::Runtime).map(drop),
            Difference::Adapter(request, origin) => {
                let has_shard = |shard: &u16| self.check_shard_number(*shard).is_ok();
                let shard = request.shard.filter(has_shard);
                let request = AdapterRequest {
                    shard,
                    ..request.clone()
                };
                self.add_adapter(&request, *origin).map(drop)
            }
        }
    }
}

#[cfg(test)]
mod tests;
