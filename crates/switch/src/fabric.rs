//! Which port gets an RDMA message: routing by GID inside port groups.
//!
//! A guest binds the GIDs of its own addresses. Inside a group a GID belongs to one port. A message goes from a GID
//! that its sender has bound to the port that has bound the other GID. Both halves are checked, so nobody sends in
//! another's name. A GID that nobody has bound is on another host, if the group reaches any.
//! the group reaches any.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use vrdma_wire::{Gid, Mac};

use crate::membership::{Member, Membership};
use crate::{AttachError, GroupId, PortId, Traffic};

mod bindings;
mod learning;
mod multicast;
mod pins;
#[cfg(test)]
mod tests;

use bindings::Bindings;
use multicast::Listeners;
pub use multicast::{JoinError, MAX_MULTICAST_PER_PORT};
pub use pins::Kept;
use pins::{Claimed, Pins};

/// Most bindings of one port. A PVRDMA GID table has fewer entries; the bound holds for any other binder, too. Further
/// bindings are refused.
pub const MAX_GIDS_PER_PORT: usize = 256;

/// Why a GID was not bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindError {
    /// Another port of the group has the GID, or it is the link-local GID of that port's MAC.
    #[error("the GID belongs to port {} of the group", by.0)]
    Taken {
        /// The port that has it.
        by: PortId,
    },
    /// The port may have other addresses only, and the GID is not that of its MAC.
    #[error(
        "the port may bind the addresses that it is kept to and the link-local GID of its MAC only"
    )]
    Pinned,
    /// The GID is zero or multicast.
    #[error("a port can only bind a unicast GID")]
    NotUnicast,
    /// The port has [`MAX_GIDS_PER_PORT`] bindings.
    #[error("a port can bind at most {MAX_GIDS_PER_PORT} GIDs")]
    TooMany,
    /// There is no such port.
    #[error("the port is not attached")]
    Detached,
}

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To a port of this host; it may be the sender.
    Port(PortId),
    /// To another host.
    Wire,
}

/// Why a message goes nowhere. For counters and operators only: a guest that learned it could find out which addresses
/// other tenants use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoRoute {
    /// The sender is not attached.
    #[error("the sending port is not attached")]
    Detached,
    /// The sender has not bound the source GID: it was spoofed, or unbound meanwhile.
    #[error("the source GID is not bound to the sending port")]
    SourceNotBound,
    /// Nobody has bound the destination GID.
    #[error("no port has bound the destination GID")]
    Unknown,
    /// Only ports of other groups have bound the destination GID.
    #[error("the destination GID is bound in another port group")]
    Isolated,
    /// A message from another host is sent in the name of an adapter of this one.
    #[error("the source GID belongs to a port of this host")]
    Spoofed,
}

impl NoRoute {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 5] = [
        Self::Detached,
        Self::SourceNotBound,
        Self::Unknown,
        Self::Isolated,
        Self::Spoofed,
    ];
}

/// The RDMA side of the switch.
#[derive(Default)]
pub struct Fabric {
    members: Membership,
    ports: BTreeMap<PortId, Port>,
    /// Sorted by GID first, so that the same GID in other groups is next to it.
    owners: BTreeMap<(Gid, GroupId), PortId>,
    /// Addresses that ports may bind besides the GID of their MAC, and that nobody else of their group may.
    pins: Pins,
    listeners: Listeners,
    /// Groups that reach other hosts.
    wired: BTreeSet<GroupId>,
    epoch: u64,
}

#[derive(Default)]
struct Port {
    gids: Bindings,
    traffic: Arc<Traffic>,
}

impl Fabric {
    /// Makes a fabric without ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a port. The link-local GID of `mac` is reserved for it: a port of the group that bound it before loses it.
    pub fn attach(&mut self, port: PortId, group: GroupId, mac: Mac) -> Result<(), AttachError> {
        self.members.attach(port, group, mac)?;
        self.evict(Gid::link_local(mac), group);
        self.ports.insert(port, Port::default());
        self.epoch += 1;
        Ok(())
    }

    /// Notes that the VM of an attached port is on another host: the port owns nothing, and its MAC is treated as any
    /// station's. Or that it comes back, as if it had just been attached.
    pub fn set_away(&mut self, port: PortId, is_away: bool) {
        let Some(Member { group, mac, .. }) = self.members.set_away(port, is_away) else {
            return;
        };
        self.clear_gids(port);
        self.pins.forget_learned(port, group);
        if !is_away {
            self.evict(Gid::link_local(mac), group);
            self.evict_from_stated(port, group);
        }
        self.epoch += 1;
    }

    fn evict(&mut self, gid: Gid, group: GroupId) {
        let squatter = self.owners.remove(&(gid, group));
        if let Some(port) = squatter.and_then(|port| self.ports.get_mut(&port)) {
            port.gids.remove(gid);
        }
    }

    /// Removes a port and its bindings; without such a port nothing happens.
    pub fn detach(&mut self, port: PortId) {
        self.clear_gids(port);
        self.forget_listener(port);
        if let Some(member) = self.members.detach(port) {
            self.pins.release(port, member.group);
            self.ports.remove(&port);
            self.epoch += 1;
            if self.members.of_group(member.group).is_empty() {
                self.wired.remove(&member.group);
            }
        }
    }

    /// Binds a GID once more: [`unbind_gid`](Self::unbind_gid) must be called as often.
    pub fn bind_gid(&mut self, port: PortId, gid: Gid) -> Result<(), BindError> {
        let group = self.group(port).ok_or(BindError::Detached)?;
        if gid.is_zero() || gid.is_multicast() {
            return Err(BindError::NotUnicast);
        }
        if let Some(by) = self.owner(gid, group).filter(|&by| by != port) {
            return Err(BindError::Taken { by });
        }
        let bound = self.ports.get(&port).ok_or(BindError::Detached)?;
        if bound.gids.count() >= MAX_GIDS_PER_PORT {
            return Err(BindError::TooMany);
        }
        if !self.claim(port, gid, group) {
            return Err(BindError::Pinned);
        }
        let bound = self.ports.get_mut(&port).ok_or(BindError::Detached)?;
        bound.gids.bind(gid);
        if self.owners.insert((gid, group), port).is_none() {
            self.epoch += 1;
        }
        Ok(())
    }

    /// Whether the port may have this address, which nobody else has.
    fn claim(&mut self, port: PortId, gid: Gid, group: GroupId) -> bool {
        let of_mac = station_of(gid).and_then(|mac| self.members.configured(group, mac));
        if of_mac == Some(port) {
            return true;
        }
        let claimed = self.pins.claim(port, gid, group);
        self.epoch += u64::from(claimed == Claimed::Now);
        claimed != Claimed::No
    }

    /// Restricts an attached port to addresses besides that of its MAC. Another port of the group that has bound one of
    /// the stated addresses loses it. The port loses bindings that it may not have any more; if it learns its
    /// addresses, those that it has bound count as the first ones.
    pub fn keep(&mut self, port: PortId, kept: &Kept) {
        let Some(Member { group, is_away, .. }) = self.members.get(port) else {
            return;
        };
        self.pins.keep(port, group, kept);
        if !is_away {
            self.evict_from_stated(port, group);
        }
        let bound: Vec<Gid> = self.gids(port).collect();
        for gid in bound {
            if !self.claim(port, gid, group) {
                self.evict(gid, group);
            }
        }
        self.epoch += 1;
    }

    /// Takes the addresses stated for a port from the other ports that have bound them.
    fn evict_from_stated(&mut self, port: PortId, group: GroupId) {
        let stated: Vec<Gid> = self.pins.stated(port).collect();
        for gid in stated {
            if self.owners.get(&(gid, group)) != Some(&port) {
                self.evict(gid, group);
            }
        }
    }

    /// Returns the port that has bound a GID, or has the right to it: by its MAC, or because it is restricted to it.
    fn owner(&self, gid: Gid, group: GroupId) -> Option<PortId> {
        let bound = self.owners.get(&(gid, group)).copied();
        let pinned = || {
            let owner = self.pins.owner(gid, group);
            owner.filter(|&port| !self.is_away(port))
        };
        bound
            .or_else(pinned)
            .or_else(|| self.members.configured(group, station_of(gid)?))
    }

    /// Whether a port owns no address, since its VM is on another host.
    pub fn is_away(&self, port: PortId) -> bool {
        self.members.get(port).is_some_and(|member| member.is_away)
    }

    /// Takes back one binding; a GID that is not bound to the port is left alone.
    pub fn unbind_gid(&mut self, port: PortId, gid: Gid) {
        let Some(group) = self.group(port) else {
            return;
        };
        let gids = self.ports.get_mut(&port).map(|port| &mut port.gids);
        if gids.is_none_or(|gids| !gids.unbind(gid)) {
            return;
        }
        self.owners.remove(&(gid, group));
        self.epoch += 1;
    }

    /// Takes back all bindings of a port, as at its reset.
    pub fn clear_gids(&mut self, port: PortId) {
        let Some(group) = self.group(port) else {
            return;
        };
        let gids = self.ports.get_mut(&port).map(|port| &mut port.gids);
        let gids = gids.map(core::mem::take).unwrap_or_default();
        for gid in gids.iter() {
            self.owners.remove(&(gid, group));
            self.epoch += 1;
        }
    }

    /// Sets whether messages of a group may leave the host; reset when its last port is gone.
    pub fn set_wired(&mut self, group: GroupId, wired: bool) {
        let changed = if wired {
            self.wired.insert(group)
        } else {
            self.wired.remove(&group)
        };
        self.epoch += u64::from(changed);
    }

    /// Returns where a message of `port` from `source` to `destination` goes. Dropped messages are counted here,
    /// carried ones by [`Traffic`].
    pub fn route(&self, port: PortId, source: Gid, destination: Gid) -> Result<Way, NoRoute> {
        let sender = self.ports.get(&port).ok_or(NoRoute::Detached)?;
        let route = self.way(port, source, destination);
        route.inspect_err(|&reason| sender.traffic.count_drop(reason))
    }

    /// Returns where a message would go: as [`Fabric::route`], but nothing is dropped or counted.
    pub fn way(&self, port: PortId, source: Gid, destination: Gid) -> Result<Way, NoRoute> {
        let sender = self.ports.get(&port).ok_or(NoRoute::Detached)?;
        let group = self.group(port).ok_or(NoRoute::Detached)?;
        if !sender.gids.contains(source) {
            return Err(NoRoute::SourceNotBound);
        }
        match self.owners.get(&(destination, group)) {
            Some(&owner) => Ok(Way::Port(owner)),
            None if self.wired.contains(&group) => Ok(Way::Wire),
            None => Err(self.no_owner(destination)),
        }
    }

    /// Returns the port of `group` that gets a message from another host. The caller, which took the message from the
    /// wire, counts it if it is dropped.
    pub fn arrive(&self, group: GroupId, source: Gid, destination: Gid) -> Result<PortId, NoRoute> {
        if self.owner(source, group).is_some() {
            return Err(NoRoute::Spoofed);
        }
        let owner = self.owners.get(&(destination, group)).copied();
        owner.ok_or(NoRoute::Unknown)
    }

    fn no_owner(&self, gid: Gid) -> NoRoute {
        let groups = (gid, GroupId(u32::MIN))..=(gid, GroupId(u32::MAX));
        match self.owners.range(groups).next() {
            Some(_) => NoRoute::Isolated,
            None => NoRoute::Unknown,
        }
    }

    /// Returns a number that changes with every change that can alter a route: routes found in the same epoch may be
    /// kept.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns a port's counters, which outlive the port for callers that keep them.
    pub fn traffic(&self, port: PortId) -> Option<Arc<Traffic>> {
        self.ports.get(&port).map(|port| port.traffic.clone())
    }

    /// Whether a port of the group has this MAC, so that no outside station may send from it.
    pub fn has_station(&self, group: GroupId, mac: Mac) -> bool {
        self.members.configured(group, mac).is_some()
    }

    /// Returns the group of a port.
    pub fn group(&self, port: PortId) -> Option<GroupId> {
        self.members.get(port).map(|member| member.group)
    }

    /// Returns the MAC of a port's adapter.
    pub fn mac(&self, port: PortId) -> Option<Mac> {
        self.members.get(port).map(|member| member.mac)
    }

    /// Returns the GIDs bound to a port, ascending.
    pub fn gids(&self, port: PortId) -> impl Iterator<Item = Gid> + '_ {
        let port = self.ports.get(&port);
        port.into_iter().flat_map(|port| port.gids.iter())
    }
}

/// Returns the MAC whose link-local GID this is.
fn station_of(gid: Gid) -> Option<Mac> {
    let [.., a, b, c, _, _, d, e, f] = gid.0;
    let mac = Mac([a ^ 2, b, c, d, e, f]);
    (Gid::link_local(mac) == gid).then_some(mac)
}
