//! The adapters of the inventory, with an index for each value that no two of them may share.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use vrdma_api::{Adapter, AdapterChange, Addresses, MacAddress, Name};
use vrdma_switch::{Policy, PortId};

use super::Plugged;
use super::limits::enforce;
use super::numbers::Numbers;
use super::people::People;

/// Adapters and their indexes; see the module. No operation goes over all adapters.
#[derive(Clone, Debug, Default)]
pub(super) struct Adapters {
    /// Boxed, because nodes of the tree have room for more entries than they hold.
    by_name: BTreeMap<Name, Box<Plugged>>,
    by_port: BTreeMap<PortId, Name>,
    by_mac: BTreeMap<MacAddress, PortId>,
    /// In a port group, an address belongs to one adapter.
    by_ip: BTreeMap<Name, BTreeMap<IpAddr, PortId>>,
    ports: Numbers,
}

impl Adapters {
    /// Adds an adapter whose name, MAC and IP address are free. Returns its number in the switch, and its limits on top
    /// of those of its port group.
    pub(super) fn insert(
        &mut self,
        adapter: Adapter,
        people: People,
        group: Arc<Policy>,
    ) -> (PortId, Arc<Policy>) {
        let port = PortId(self.ports.take());
        self.by_port.insert(port, adapter.name.clone());
        self.by_mac.insert(adapter.mac, port);
        self.give(&adapter.portgroup, &adapter.ip, port);
        let name = adapter.name.clone();
        let policy = Arc::new(Policy::in_group(group));
        enforce(&policy, &adapter.limits);
        policy.set_weight(adapter.weight.get());
        let plugged = Plugged {
            port,
            policy: Arc::clone(&policy),
            adapter,
            people,
        };
        self.by_name.insert(name, Box::new(plugged));
        (port, policy)
    }

    /// Removes an adapter; its name, number and addresses are free then.
    pub(super) fn remove(&mut self, name: &Name) -> Option<Plugged> {
        let plugged = self.by_name.remove(name)?;
        let Plugged { port, adapter, .. } = &*plugged;
        self.by_port.remove(port);
        self.by_mac.remove(&adapter.mac);
        self.ports.give_back(port.0);
        self.take(&plugged.adapter.portgroup, &plugged.adapter.ip);
        Some(*plugged)
    }

    fn give(&mut self, portgroup: &Name, ip: &Addresses, port: PortId) {
        if !ip.is_empty() {
            let of_group = self.by_ip.entry(portgroup.clone()).or_default();
            of_group.extend(ip.as_slice().iter().map(|ip| (*ip, port)));
        }
    }

    fn take(&mut self, portgroup: &Name, ip: &Addresses) {
        if let Some(of_group) = self.by_ip.get_mut(portgroup) {
            for ip in ip.as_slice() {
                of_group.remove(ip);
            }
            if of_group.is_empty() {
                self.by_ip.remove(portgroup);
            }
        }
    }

    /// Replaces the IP addresses of an adapter. No other adapter has the new ones.
    pub(super) fn keep_to(&mut self, name: &Name, ip: &Addresses) {
        let Some(plugged) = self.get_mut(name) else {
            return;
        };
        let before = std::mem::replace(&mut plugged.adapter.ip, ip.clone());
        let (port, portgroup) = (plugged.port, plugged.adapter.portgroup.clone());
        self.take(&portgroup, &before);
        self.give(&portgroup, ip, port);
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn get(&self, name: &Name) -> Option<&Plugged> {
        self.by_name.get(name).map(|plugged| &**plugged)
    }

    pub(super) fn get_mut(&mut self, name: &Name) -> Option<&mut Plugged> {
        self.by_name.get_mut(name).map(|plugged| &mut **plugged)
    }

    /// Records that the VM of an adapter goes to another host, or comes from there.
    pub(super) fn set_away(&mut self, name: &Name, away: bool) {
        if let Some(plugged) = self.by_name.get_mut(name) {
            plugged.adapter.away = away;
        }
    }

    /// Records that another shard serves an adapter from now on.
    pub(super) fn place(&mut self, name: &Name, shard: Option<u16>) {
        if let Some(plugged) = self.by_name.get_mut(name) {
            plugged.adapter.shard = shard;
        }
    }

    /// Changes what an adapter may send and receive.
    pub(super) fn limit(&mut self, name: &Name, change: &AdapterChange) {
        if let Some(Plugged {
            adapter, policy, ..
        }) = self.get_mut(name)
        {
            adapter.limits = adapter.limits.changed(&change.limits);
            adapter.weight = change.weight.unwrap_or(adapter.weight);
            enforce(policy, &adapter.limits);
            policy.set_weight(adapter.weight.get());
        }
    }

    /// Returns all adapters, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, &Plugged)> {
        let all = self.by_name.iter();
        all.map(|(name, plugged)| (name, &**plugged))
    }

    /// Returns the adapter with this MAC address.
    pub(super) fn with_mac(&self, mac: MacAddress) -> Option<&Name> {
        self.by_port.get(self.by_mac.get(&mac)?)
    }

    /// Returns the adapter with this IP address in a port group.
    pub(super) fn with_ip(&self, portgroup: &Name, ip: IpAddr) -> Option<&Name> {
        let port = self.by_ip.get(portgroup)?.get(&ip)?;
        self.by_port.get(port)
    }
}
