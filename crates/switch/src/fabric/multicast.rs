//! Multicast inside port groups: a datagram to a multicast GID goes to every port whose adapter has said that it
//! listens.

use alloc::collections::{BTreeMap, BTreeSet};

use vrdma_wire::Gid;

use super::{Fabric, NoRoute};
use crate::{GroupId, PortId};

/// Most multicast GIDs that one port listens to: as many as an engine can attach queue pairs to.
pub const MAX_MULTICAST_PER_PORT: usize = 1024;

/// Why a port does not listen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JoinError {
    /// There is no such port.
    #[error("the port is not attached")]
    Detached,
    /// It is not a multicast GID.
    #[error("a port can only listen to multicast GIDs")]
    NotMulticast,
    /// More than [`MAX_MULTICAST_PER_PORT`] were given.
    #[error("a port can listen to at most {MAX_MULTICAST_PER_PORT} multicast GIDs")]
    TooMany,
}

/// Which ports listen to which GIDs; GIDs without listeners have no entry.
#[derive(Default)]
pub(super) struct Listeners {
    ports: BTreeMap<(GroupId, Gid), BTreeSet<PortId>>,
}

impl Listeners {
    fn remove(&mut self, port: PortId) {
        self.ports.retain(|_, ports| {
            ports.remove(&port);
            !ports.is_empty()
        });
    }

    fn of(&self, group: GroupId, to: Gid) -> impl Iterator<Item = PortId> {
        let ports = self.ports.get(&(group, to));
        ports.into_iter().flatten().copied()
    }
}

impl Fabric {
    /// Makes the port listen to exactly these multicast GIDs from now on.
    ///
    /// # Errors
    /// See [`JoinError`]; on error it listens to the same GIDs as before.
    pub fn listen(
        &mut self,
        port: PortId,
        to: impl IntoIterator<Item = Gid>,
    ) -> Result<(), JoinError> {
        let group = self.group(port).ok_or(JoinError::Detached)?;
        let mut all = BTreeSet::new();
        for gid in to {
            if !gid.is_multicast() {
                return Err(JoinError::NotMulticast);
            }
            all.insert(gid);
            if all.len() > MAX_MULTICAST_PER_PORT {
                return Err(JoinError::TooMany);
            }
        }
        self.listeners.remove(port);
        for gid in all {
            let ports = self.listeners.ports.entry((group, gid)).or_default();
            ports.insert(port);
        }
        Ok(())
    }

    pub(super) fn forget_listener(&mut self, port: PortId) {
        self.listeners.remove(port);
    }

    /// Returns the ports that hear a datagram of `port` from `source` to the multicast GID `to`, ascending; the sender
    /// may be one of them. The caller decides whether other hosts hear it, too.
    ///
    /// # Errors
    /// `Detached`, and `SourceNotBound`, which is counted as for [`Fabric::route`].
    pub fn hear(
        &self,
        port: PortId,
        source: Gid,
        to: Gid,
    ) -> Result<impl Iterator<Item = PortId> + '_, NoRoute> {
        let sender = self.ports.get(&port).ok_or(NoRoute::Detached)?;
        let group = self.group(port).ok_or(NoRoute::Detached)?;
        if !sender.gids.contains(source) {
            sender.traffic.count_drop(NoRoute::SourceNotBound);
            return Err(NoRoute::SourceNotBound);
        }
        Ok(self.listeners.of(group, to))
    }

    /// Whether datagrams of a port may also leave the host.
    pub fn leaves(&self, port: PortId) -> bool {
        let group = self.group(port);
        group.is_some_and(|group| self.wired.contains(&group))
    }

    /// Returns the ports of `group` that hear a datagram from another host.
    ///
    /// # Errors
    /// `Spoofed`, as for [`Fabric::arrive`].
    pub fn hear_from_wire(
        &self,
        group: GroupId,
        source: Gid,
        to: Gid,
    ) -> Result<impl Iterator<Item = PortId> + '_, NoRoute> {
        match self.owner(source, group) {
            Some(_) => Err(NoRoute::Spoofed),
            None => Ok(self.listeners.of(group, to)),
        }
    }
}

#[cfg(test)]
mod tests;
