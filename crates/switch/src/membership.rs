//! The attached ports, their groups, and their MACs.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

use vrdma_wire::Mac;

#[cfg(test)]
mod tests;

/// Most ports of one switch, and so adapters of a host: ten thousand and room for growth. Further ports are refused. It
/// bounds memory (some 4 KiB for each unused port: 64 MiB) and the cost of a flooded frame, which goes to all ports of
/// its group.
pub const MAX_PORTS: usize = 16384;

/// One adapter's place at the switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub u32);

/// A port group: ports that may reach each other and nobody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u32);

/// A way out of the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UplinkId(pub u32);

/// Why a port was not attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    /// The number is in use.
    #[error("the port is attached already")]
    PortTaken,
    /// Another port of the group has this MAC.
    #[error("port {} of the group has this MAC address", by.0)]
    MacTaken {
        /// The port that has it.
        by: PortId,
    },
    /// The MAC is zero, broadcast or multicast.
    #[error("an adapter's MAC address must be that of one station")]
    NotAStation,
    /// There are [`MAX_PORTS`] ports.
    #[error("a switch has at most {MAX_PORTS} ports")]
    TooMany,
}

/// One attached port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) group: GroupId,
    pub(crate) mac: Mac,
    /// Its VM is on another host, where others find its addresses.
    pub(crate) is_away: bool,
}

/// All attached ports, found by number, by group and by configured MAC.
#[derive(Default)]
pub(crate) struct Membership {
    ports: BTreeMap<PortId, Member>,
    /// Ports of each group: ascending, never empty.
    groups: BTreeMap<GroupId, Vec<PortId>>,
    macs: BTreeMap<(GroupId, Mac), PortId>,
}

impl Membership {
    pub(crate) fn attach(
        &mut self,
        port: PortId,
        group: GroupId,
        mac: Mac,
    ) -> Result<(), AttachError> {
        self.may_attach(port, group, mac)?;
        let member = Member {
            group,
            mac,
            is_away: false,
        };
        self.ports.insert(port, member);
        self.macs.insert((group, mac), port);
        let members = self.groups.entry(group).or_default();
        let place = members.partition_point(|&member| member < port);
        members.insert(place, port);
        Ok(())
    }

    fn may_attach(&self, port: PortId, group: GroupId, mac: Mac) -> Result<(), AttachError> {
        if mac.is_group() || mac == Mac::default() {
            Err(AttachError::NotAStation)
        } else if self.ports.contains_key(&port) {
            Err(AttachError::PortTaken)
        } else if let Some(&by) = self.macs.get(&(group, mac)) {
            Err(AttachError::MacTaken { by })
        } else if self.ports.len() >= MAX_PORTS {
            Err(AttachError::TooMany)
        } else {
            Ok(())
        }
    }

    pub(crate) fn detach(&mut self, port: PortId) -> Option<Member> {
        let member = self.ports.remove(&port)?;
        self.macs.remove(&(member.group, member.mac));
        if let Entry::Occupied(mut group) = self.groups.entry(member.group) {
            if let Ok(place) = group.get().binary_search(&port) {
                group.get_mut().remove(place);
            }
            if group.get().is_empty() {
                group.remove();
            }
        }
        Some(member)
    }

    pub(crate) fn get(&self, port: PortId) -> Option<Member> {
        self.ports.get(&port).copied()
    }

    /// Returns the port whose adapter was given this MAC, and is not away.
    pub(crate) fn configured(&self, group: GroupId, mac: Mac) -> Option<PortId> {
        let port = self.macs.get(&(group, mac)).copied()?;
        let is_here = self.ports.get(&port).is_some_and(|member| !member.is_away);
        is_here.then_some(port)
    }

    /// Notes that an attached port goes away or comes back; returns what it is, if there is such a port.
    pub(crate) fn set_away(&mut self, port: PortId, is_away: bool) -> Option<Member> {
        let member = self.ports.get_mut(&port)?;
        member.is_away = is_away;
        Some(*member)
    }

    /// Returns the ports of a group, ascending.
    pub(crate) fn of_group(&self, group: GroupId) -> &[PortId] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Returns a port as a slice of its group, so that one receiver and many look the same.
    pub(crate) fn alone(&self, group: GroupId, port: PortId) -> &[PortId] {
        let members = self.of_group(group);
        match members.binary_search(&port) {
            Ok(place) => &members[place..=place],
            Err(_) => &[],
        }
    }
}
