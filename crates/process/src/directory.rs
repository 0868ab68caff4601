//! All process adapters of this host: sessions look them up here.
//!
//! Written by the control thread when an adapter is added, moved or removed; read by every shard when a session opens
//! an adapter or asks for the list. The adapters themselves are elsewhere: each belongs to one shard.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use vrdma_adapter::ShardId;
use vrdma_provider::message::AdapterReply;
use vrdma_switch::{GroupId, PortId};
use vrdma_wire::Gid;

use crate::admission::{Usable, merged};
use crate::spec::ProcessSpec;

/// All process adapters of this host.
#[derive(Debug, Default)]
pub struct Directory {
    entries: RwLock<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Boxed: a node of the tree has room for more entries than it holds.
    by_port: BTreeMap<PortId, Box<Entry>>,
    by_name: BTreeMap<Arc<str>, PortId>,
    by_address: BTreeMap<(GroupId, Gid), PortId>,
    /// Ports in ascending order: programs ask for the first, the second and so on.
    ports: Vec<PortId>,
}

#[derive(Debug)]
struct Entry {
    spec: ProcessSpec,
    shard: ShardId,
}

impl Entries {
    fn at(&self, index: usize, usable: &Usable) -> Option<PortId> {
        match usable {
            Usable::All => self.ports.get(index).copied(),
            Usable::Only(shares) => {
                let mut there = merged(shares).filter(|port| self.by_port.contains_key(port));
                there.nth(index)
            }
        }
    }
}

impl Directory {
    /// Adds an adapter, in place of one with the same port.
    pub fn add(&self, spec: &ProcessSpec, shard: ShardId) {
        self.remove(spec.port);
        let mut entries = self.write();
        entries.by_name.insert(Arc::clone(&spec.name), spec.port);
        for gid in spec.addresses() {
            entries.by_address.insert((spec.group, gid), spec.port);
        }
        let at = entries.ports.partition_point(|port| *port < spec.port);
        entries.ports.insert(at, spec.port);
        let spec = spec.clone();
        let entry = Entry { spec, shard };
        entries.by_port.insert(entry.spec.port, Box::new(entry));
    }

    /// Forgets an adapter.
    pub fn remove(&self, port: PortId) {
        let mut entries = self.write();
        let Some(entry) = entries.by_port.remove(&port) else {
            return;
        };
        let spec = &entry.spec;
        entries.by_name.remove(&spec.name);
        for gid in spec.addresses() {
            entries.by_address.remove(&(spec.group, gid));
        }
        if let Ok(at) = entries.ports.binary_search(&port) {
            entries.ports.remove(at);
        }
    }

    /// Sets the shard that serves the adapter from now on.
    pub fn place(&self, port: PortId, shard: ShardId) {
        if let Some(entry) = self.write().by_port.get_mut(&port) {
            entry.shard = shard;
        }
    }

    /// The shard that serves an adapter.
    pub fn shard_of(&self, port: PortId) -> Option<ShardId> {
        Some(self.read().by_port.get(&port)?.shard)
    }

    /// The adapter with that name.
    pub(crate) fn named(&self, name: &str) -> Option<PortId> {
        self.read().by_name.get(name).copied()
    }

    /// Returns the only adapter of a set; `None` if there is not exactly one.
    pub(crate) fn only(&self, usable: &Usable) -> Option<PortId> {
        let entries = self.read();
        let first = entries.at(0, usable)?;
        entries.at(1, usable).is_none().then_some(first)
    }

    /// Describes the adapter at a place in the list of a set, for a library.
    pub(crate) fn described(&self, index: u32, usable: &Usable) -> Option<AdapterReply> {
        let entries = self.read();
        let port = entries.at(index as usize, usable)?;
        Some(entries.by_port.get(&port)?.spec.described())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.read().ports.is_empty()
    }

    /// Describes one adapter, for a library.
    pub(crate) fn described_at(&self, port: PortId) -> Option<AdapterReply> {
        Some(self.read().by_port.get(&port)?.spec.described())
    }

    /// The adapter that has an address in a port group.
    pub fn with_address(&self, group: GroupId, gid: Gid) -> Option<PortId> {
        self.read().by_address.get(&(group, gid)).copied()
    }

    // A thread that panicked in the middle of a change ends the daemon, so nobody sees a half-done change.
    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use vrdma_wire::Mac;

    use super::*;

    fn spec(port: u32, name: &str) -> ProcessSpec {
        ProcessSpec {
            name: name.into(),
            portgroup: "blue".into(),
            port: PortId(port),
            group: GroupId(1),
            mac: Mac([2, 0, 0, 0, 0, port as u8]),
            ip: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, port as u8))),
        }
    }

    #[test]
    fn the_only_adapter_may_be_one_of_many() {
        let directory = Directory::default();
        let all = Usable::All;
        assert_eq!(directory.only(&all), None);
        directory.add(&spec(4, "p4"), ShardId(0));
        assert_eq!(directory.only(&all), Some(PortId(4)));
        directory.add(&spec(2, "p2"), ShardId(1));
        assert_eq!(directory.only(&all), None);
        let some = |ports: &[u32]| {
            let share = ports.iter().copied().map(PortId).collect();
            Usable::Only(vec![Arc::new(share)])
        };
        assert_eq!(directory.only(&some(&[2])), Some(PortId(2)));
        assert_eq!(directory.only(&some(&[2, 3])), Some(PortId(2)), "3 is none");
        assert_eq!(directory.only(&some(&[2, 4])), None);
        assert_eq!(directory.only(&some(&[])), None);
        assert!(directory.described(1, &some(&[2])).is_none());
        assert_eq!(directory.named("p2"), Some(PortId(2)));
        assert_eq!(directory.shard_of(PortId(2)), Some(ShardId(1)));
    }

    #[test]
    fn adapters_are_listed_in_the_order_of_their_ports() {
        let directory = Directory::default();
        for port in [7, 3, 5] {
            directory.add(&spec(port, &format!("p{port}")), ShardId(0));
        }
        let names = || -> Vec<_> {
            let listed = (0..).map_while(|index| directory.described(index, &Usable::All));
            listed
                .map(|adapter| adapter.name.as_str().to_owned())
                .collect()
        };
        assert_eq!(names(), ["p3", "p5", "p7"]);
        directory.remove(PortId(5));
        assert_eq!(names(), ["p3", "p7"]);
    }

    #[test]
    fn what_is_removed_is_found_by_nothing() {
        let directory = Directory::default();
        let spec = spec(1, "p1");
        directory.add(&spec, ShardId(0));
        let gid = spec.addresses()[1];
        assert_eq!(directory.with_address(GroupId(1), gid), Some(PortId(1)));
        assert_eq!(directory.with_address(GroupId(2), gid), None);
        directory.remove(PortId(1));
        assert_eq!(directory.with_address(GroupId(1), gid), None);
        assert_eq!(directory.named("p1"), None);
        assert_eq!(directory.shard_of(PortId(1)), None);
    }
}
