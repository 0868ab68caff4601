//! Addresses to which ports are restricted, and that nobody else of their group may bind.
//!
//! They are stated or learned. A port that learns has the first IPv4 and the first IPv6 address that it uses, on its
//! Ethernet card or as a GID, until it begins anew.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use vrdma_wire::Gid;

use crate::{GroupId, PortId};

/// Which addresses a port may have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Kept {
    /// Any address that nobody else has.
    #[default]
    Any,
    /// These addresses; nobody else of the group has them.
    Stated(Box<[Gid]>),
    /// The first address of each family that it uses.
    Learned,
}

/// The addresses that a port has learned so far, by family.
#[derive(Clone, Copy, Default)]
struct Learned([Option<Gid>; 2]);

impl Learned {
    fn place(&mut self, gid: Gid) -> &mut Option<Gid> {
        &mut self.0[family(gid)]
    }
}

/// All restrictions; see the module.
#[derive(Default)]
pub(super) struct Pins {
    stated: BTreeMap<PortId, Box<[Gid]>>,
    learners: BTreeMap<PortId, Learned>,
    owners: BTreeMap<(Gid, GroupId), PortId>,
}

impl Pins {
    /// Replaces a port's restriction. Other ports lose what they had learned of the addresses.
    pub(super) fn keep(&mut self, port: PortId, group: GroupId, kept: &Kept) {
        self.release(port, group);
        match kept {
            Kept::Any => {}
            Kept::Stated(gids) => {
                for &gid in gids {
                    self.give(port, gid, group);
                }
                self.stated.insert(port, gids.clone());
            }
            Kept::Learned => {
                self.learners.insert(port, Learned::default());
            }
        }
    }

    /// Ends a port's restriction.
    pub(super) fn release(&mut self, port: PortId, group: GroupId) {
        self.forget_learned(port, group);
        self.learners.remove(&port);
        for gid in self.stated.remove(&port).unwrap_or_default() {
            self.take(port, gid, group);
        }
    }

    /// Makes a port that learns begin anew; `true` if it is one.
    pub(super) fn forget_learned(&mut self, port: PortId, group: GroupId) -> bool {
        let Some(learned) = self.learners.get_mut(&port) else {
            return false;
        };
        let Learned(before) = core::mem::take(learned);
        for gid in before.into_iter().flatten() {
            self.take(port, gid, group);
        }
        true
    }

    fn give(&mut self, port: PortId, gid: Gid, group: GroupId) {
        let before = self.owners.insert((gid, group), port);
        let loser = before.filter(|&before| before != port);
        if let Some(learned) = loser.and_then(|loser| self.learners.get_mut(&loser)) {
            *learned.place(gid) = None;
        }
    }

    fn take(&mut self, port: PortId, gid: Gid, group: GroupId) {
        if self.owners.get(&(gid, group)) == Some(&port) {
            self.owners.remove(&(gid, group));
        }
    }

    /// Returns the port that is restricted to an address, and so has the right to it.
    pub(super) fn owner(&self, gid: Gid, group: GroupId) -> Option<PortId> {
        self.owners.get(&(gid, group)).copied()
    }

    /// Returns the addresses stated for a port.
    pub(super) fn stated(&self, port: PortId) -> impl Iterator<Item = Gid> {
        self.stated.get(&port).into_iter().flatten().copied()
    }

    /// Returns the addresses that a port has learned, IPv4 first.
    pub(super) fn learned(&self, port: PortId) -> impl Iterator<Item = Gid> {
        let learned = self.learners.get(&port);
        learned.into_iter().flat_map(|it| it.0).flatten()
    }

    /// Whether a port may have an address that nobody else has.
    pub(super) fn admits(&self, port: PortId, gid: Gid) -> bool {
        if let Some(stated) = self.stated.get(&port) {
            return stated.contains(&gid);
        }
        self.learners.get(&port).is_none_or(|learned| {
            let own = learned.0[family(gid)];
            own.map_or_else(|| can_be_learned(gid), |own| own == gid)
        })
    }

    /// Whether a port has an address that nobody else has. A port that learns owns the first one from now on.
    pub(super) fn claim(&mut self, port: PortId, gid: Gid, group: GroupId) -> Claimed {
        if !self.admits(port, gid) {
            return Claimed::No;
        }
        let Some(learned) = self.learners.get_mut(&port) else {
            return Claimed::Before;
        };
        if learned.place(gid).replace(gid).is_some() {
            return Claimed::Before;
        }
        self.owners.insert((gid, group), port);
        Claimed::Now
    }

    pub(super) fn learns(&self, port: PortId) -> bool {
        self.learners.contains_key(&port)
    }
}

/// Whether an address is a port's own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimed {
    /// It is not the port's.
    No,
    /// It was the port's already.
    Before,
    /// It is the port's from now on.
    Now,
}

fn family(gid: Gid) -> usize {
    usize::from(gid.to_ipv4().is_none())
}

/// Whether it is a unicast address that others can send to. Link-local addresses of IPv6 are not learned: that of the
/// port's MAC it has anyway, and another would take the place of the address by which the guest is known.
fn can_be_learned(gid: Gid) -> bool {
    match gid.to_ipv4() {
        Some(ip) => {
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_broadcast())
        }
        None => {
            let ip = gid.to_ipv6();
            !(ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_multicast()
                || ip.is_unicast_link_local())
        }
    }
}
