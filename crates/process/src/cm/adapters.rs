//! The adapters that connection management serves, and queues of those to which something happened.
//!
//! ```text
//!   get_mut ──► touched ──► next_event, until there is none ──► sending ──► next_outgoing
//!                                                          └──► deadlines ──► take_due
//! ```
//! A change to an adapter may give it events, datagrams and another deadline, so each changed adapter is looked at
//! once. No call looks at adapters to which nothing happened.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use vrdma_cm::{Event, Outgoing};
use vrdma_provider::message::Name;
use vrdma_switch::PortId;
use vrdma_wire::Gid;

use super::adapter::Adapter;
use super::holding::Everywhere;
use super::ports::Ports;
use super::scope::Scope;
use crate::admission::{Usable, merged};

/// The adapters that connection management serves.
#[derive(Default)]
pub(super) struct Adapters {
    /// Boxed: a node of the tree has room for more entries than it holds.
    by_port: BTreeMap<PortId, Box<Adapter>>,
    by_name: BTreeMap<Arc<str>, PortId>,
    /// All addresses of all adapters; port groups may have the same ones.
    by_gid: BTreeSet<(Gid, PortId)>,
    /// The addresses without the link-local ones, which follow from MAC addresses.
    by_address: BTreeSet<(Gid, PortId)>,
    /// Adapters that may have events, each at most once.
    touched: VecDeque<PortId>,
    /// Adapters that may have datagrams, each at most once.
    sending: VecDeque<PortId>,
    deadlines: BTreeSet<(Duration, PortId)>,
    /// Whether adapters are recorded. Only then the next two queues are filled: adapters that may have changed, and
    /// those whose datagrams were sent, each at most once.
    is_tracked: bool,
    unrecorded: Vec<PortId>,
    sent: Vec<PortId>,
    pub(super) everywhere: Everywhere,
    /// How often an adapter was looked up by its port.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<u64>,
}

impl Adapters {
    /// Makes an empty collection; `seed` determines where the search for a port that is free at all adapters begins.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            everywhere: Everywhere::starting_at(seed),
            ..Self::default()
        }
    }

    /// Starts to queue what is to be recorded.
    pub(super) fn track(&mut self) {
        self.is_tracked = true;
    }

    pub(super) fn insert(&mut self, mut adapter: Adapter) {
        let port = adapter.spec.port;
        if self.is_tracked {
            adapter.track();
        }
        self.remove(port);
        let name = Arc::clone(&adapter.spec.name);
        self.by_name.insert(name, port);
        self.by_gid.extend(adapter.gids().map(|gid| (gid, port)));
        self.by_address.insert((adapter.spec.address, port));
        self.by_port.insert(port, Box::new(adapter));
    }

    /// Removes an adapter. Its entries in the queues are skipped later.
    pub(super) fn remove(&mut self, port: PortId) {
        let Some(adapter) = self.by_port.remove(&port) else {
            return;
        };
        self.everywhere.forget(&adapter.ports);
        self.by_name.remove(&adapter.spec.name);
        for gid in adapter.gids() {
            self.by_gid.remove(&(gid, port));
        }
        self.by_address.remove(&(adapter.spec.address, port));
        if adapter.touched {
            self.touched.retain(|other| *other != port);
        }
        if adapter.sending {
            self.sending.retain(|other| *other != port);
        }
        if let Some(due) = adapter.due {
            self.deadlines.remove(&(due, port));
        }
        self.unrecorded.retain(|other| *other != port);
        self.sent.retain(|other| *other != port);
    }

    /// The ports of all adapters.
    pub(super) fn ports(&self) -> impl Iterator<Item = PortId> {
        self.by_port.keys().copied()
    }

    pub(super) fn named(&self, name: Name) -> Option<PortId> {
        self.by_name.get(name.as_str()).copied()
    }

    /// Returns the name of an adapter; empty if the adapter is gone.
    pub(super) fn name_of(&self, port: PortId) -> String {
        let adapter = self.get(port);
        adapter.map_or_else(String::new, |adapter| adapter.spec.name.to_string())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_port.is_empty()
    }

    pub(super) fn has(&self, port: PortId) -> bool {
        self.by_port.contains_key(&port)
    }

    #[cfg(test)]
    fn look(&self) {
        self.looks.set(self.looks.get() + 1);
    }

    #[cfg(not(test))]
    fn look(&self) {}

    /// The ports of an adapter, for [`Adapters::take_port`] and its relatives.
    pub(super) fn ports_mut(&mut self, port: PortId) -> Option<&mut Ports> {
        self.look();
        Some(&mut self.by_port.get_mut(&port)?.ports)
    }

    pub(super) fn get(&self, port: PortId) -> Option<&Adapter> {
        self.look();
        self.by_port.get(&port).map(|adapter| &**adapter)
    }

    /// Returns an adapter that the caller may change.
    pub(super) fn get_mut(&mut self, port: PortId) -> Option<&mut Adapter> {
        self.look();
        let adapter = self.by_port.get_mut(&port)?;
        if !std::mem::replace(&mut adapter.touched, true) {
            self.touched.push_back(port);
        }
        if self.is_tracked && !std::mem::replace(&mut adapter.unrecorded, true) {
            self.unrecorded.push(port);
        }
        Some(adapter)
    }

    /// Takes an adapter that may have changed since it was recorded.
    pub(super) fn next_unrecorded(&mut self) -> Option<&mut Adapter> {
        let port = self.unrecorded.pop()?;
        let adapter = self.by_port.get_mut(&port)?;
        adapter.unrecorded = false;
        Some(adapter)
    }

    /// Takes an adapter whose datagrams were sent, and the number of datagrams sent in all.
    pub(super) fn next_sent(&mut self) -> Option<(PortId, u64)> {
        let port = self.sent.pop()?;
        let adapter = self.by_port.get_mut(&port)?;
        adapter.sent = false;
        Some((port, adapter.make_cm().sent()))
    }

    /// The adapters in a scope.
    pub(super) fn usable<'a>(&'a self, scope: &'a Scope) -> Box<dyn Iterator<Item = PortId> + 'a> {
        if scope.wants != Name::default() {
            let named = self.by_name.get(scope.wants.as_str()).copied();
            return Box::new(named.into_iter().filter(|port| scope.admits(*port)));
        }
        match &scope.usable {
            Usable::All => Box::new(self.by_port.keys().copied()),
            Usable::Only(shares) => {
                let there = |port: &PortId| self.by_port.contains_key(port);
                Box::new(merged(shares).filter(there))
            }
        }
    }

    /// Finds an adapter in a scope that has an address.
    pub(super) fn with_gid(&self, scope: &Scope, gid: Gid) -> Option<PortId> {
        let has = |port: &PortId| self.by_gid.contains(&(gid, *port));
        if !scope.is_all() {
            return self.usable(scope).find(has);
        }
        let mut with_gid = self
            .by_gid
            .range((gid, PortId(0))..=(gid, PortId(u32::MAX)));
        with_gid.next().map(|(_, port)| *port)
    }

    /// Finds the adapter in a scope whose own address is most like `to`. Among all addresses in order, one of the two
    /// neighbours of `to` shares the most leading bits with it.
    pub(super) fn nearest(&self, scope: &Scope, to: Gid) -> Option<PortId> {
        if !scope.is_all() {
            let own = self.usable(scope);
            let own = own.filter_map(|port| Some((self.get(port)?.spec.address, port)));
            return most_like(to, own);
        }
        let above = self.by_address.range((to, PortId(0))..).next();
        let below = self.by_address.range(..(to, PortId(0))).next_back();
        most_like(to, above.into_iter().chain(below).copied())
    }

    /// Takes an event of an adapter to which something happened.
    pub(super) fn next_event(&mut self) -> Option<(PortId, Event)> {
        while let Some(port) = self.touched.front().copied() {
            if let Some(adapter) = self.by_port.get_mut(&port) {
                if let Some(event) = adapter.cm.as_mut().and_then(|cm| cm.next_event()) {
                    return Some((port, event));
                }
                adapter.touched = false;
                if !std::mem::replace(&mut adapter.sending, true) {
                    self.sending.push_back(port);
                }
                set_deadline(&mut self.deadlines, adapter);
            }
            self.touched.pop_front();
        }
        None
    }

    /// Takes a datagram of an adapter whose events were taken.
    pub(super) fn next_outgoing(&mut self) -> Option<(PortId, Outgoing)> {
        while let Some(port) = self.sending.front().copied() {
            if let Some(adapter) = self.by_port.get_mut(&port) {
                if let Some(outgoing) = adapter.cm.as_mut().and_then(|cm| cm.next_outgoing()) {
                    if self.is_tracked && !std::mem::replace(&mut adapter.sent, true) {
                        self.sent.push(port);
                    }
                    return Some((port, outgoing));
                }
                adapter.sending = false;
            }
            self.sending.pop_front();
        }
        None
    }

    /// Whether datagrams may wait.
    pub(super) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// The first of the adapters' deadlines.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    /// Takes an adapter whose deadline has come; its next deadline is asked for afterwards.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<&mut Adapter> {
        let &(due, port) = self.deadlines.first()?;
        if due > now {
            return None;
        }
        self.deadlines.pop_first();
        let adapter = self.get_mut(port)?;
        adapter.due = None;
        Some(adapter)
    }
}

/// The adapter whose address shares the most leading bits with another.
fn most_like(to: Gid, adapters: impl Iterator<Item = (Gid, PortId)>) -> Option<PortId> {
    let same_bits = |gid: Gid| (gid.to_ipv6().to_bits() ^ to.to_ipv6().to_bits()).leading_zeros();
    let nearest = adapters.max_by_key(|(gid, port)| (same_bits(*gid), std::cmp::Reverse(*port)));
    nearest.map(|(_, port)| port)
}

fn set_deadline(deadlines: &mut BTreeSet<(Duration, PortId)>, adapter: &mut Adapter) {
    let due = adapter.cm.as_ref().and_then(|cm| cm.deadline());
    let port = adapter.spec.port;
    if adapter.due == due {
        return;
    }
    if let Some(before) = adapter.due {
        deadlines.remove(&(before, port));
    }
    deadlines.extend(due.map(|due| (due, port)));
    adapter.due = due;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use vrdma_wire::{Mac, Mtu};

    use super::super::adapter::AdapterSpec;
    use super::*;

    fn adapter(number: u32, address: u32) -> Adapter {
        let [a, b, c, d] = number.to_be_bytes();
        let spec = AdapterSpec {
            port: PortId(number),
            name: format!("c{number}").into(),
            mac: Mac([2, 0, a, b, c, d]),
            address: Gid::from_ipv4(Ipv4Addr::from_bits(address)),
            mtu: Mtu::B1024,
        };
        Adapter::new(spec, 1)
    }

    fn scope(wants: &str, usable: Usable) -> Scope {
        let wants = Name::new(wants).unwrap();
        Scope { wants, usable }
    }

    /// An address for each number; they share prefixes of all lengths.
    fn some_address(number: u32) -> u32 {
        0x0a00_0000 ^ number.wrapping_mul(0x9e37_79b1) >> (number % 28)
    }

    #[test]
    fn the_address_most_like_another_is_found() {
        let mut adapters = Adapters::default();
        for number in 0..200 {
            adapters.insert(adapter(number, some_address(number)));
        }
        for number in (0..200).step_by(3) {
            adapters.remove(PortId(number));
        }
        let everybody = scope("", Usable::All);
        let left = || (0..200).filter(|number| number % 3 != 0);
        for to in (0..1000).map(|number| some_address(number + 7)) {
            let same_bits = |number: u32| (some_address(number) ^ to).leading_zeros();
            let gid = Gid::from_ipv4(Ipv4Addr::from_bits(to));
            let nearest = adapters.nearest(&everybody, gid).unwrap();
            let most = left().map(same_bits).max().unwrap();
            assert_eq!(same_bits(nearest.0), most, "{to:#x}");
            let who = left()
                .find(|number| some_address(*number) == to)
                .map(PortId);
            assert_eq!(adapters.with_gid(&everybody, gid), who);
        }
        let named = scope("c7", Usable::All);
        assert_eq!(adapters.nearest(&named, Gid::default()), Some(PortId(7)));
        assert_eq!(adapters.usable(&scope("c6", Usable::All)).next(), None);
        assert_eq!(adapters.usable(&everybody).count(), 133);
    }

    #[test]
    fn what_is_out_of_scope_is_found_by_nothing() {
        let mut adapters = Adapters::default();
        for number in 0..10 {
            adapters.insert(adapter(number, number));
        }
        let some = || Usable::Only(vec![Arc::new([2, 5, 77].map(PortId).into())]);
        let gid = |number| Gid::from_ipv4(Ipv4Addr::from_bits(number));
        let own = scope("", some());
        assert_eq!(
            adapters.usable(&own).collect::<Vec<_>>(),
            [PortId(2), PortId(5)]
        );
        assert_eq!(adapters.with_gid(&own, gid(5)), Some(PortId(5)));
        assert_eq!(adapters.with_gid(&own, gid(4)), None);
        assert_eq!(adapters.nearest(&own, gid(4)), Some(PortId(5)));
        let named = scope("c4", some());
        assert_eq!(adapters.usable(&named).next(), None);
        assert_eq!(adapters.with_gid(&named, gid(4)), None);
        assert_eq!(adapters.nearest(&named, gid(4)), None);
    }

    /// Queued entries of an adapter that is gone do not count for the adapter that has its port now.
    #[test]
    fn a_removed_adapter_leaves_nothing() {
        let mut adapters = Adapters::default();
        adapters.insert(adapter(1, 1));
        adapters.get_mut(PortId(1)).unwrap();
        adapters.remove(PortId(1));
        assert!(adapters.next_event().is_none() && adapters.touched.is_empty());
        adapters.insert(adapter(1, 2));
        adapters.get_mut(PortId(1)).unwrap();
        assert!(adapters.next_event().is_none() && adapters.is_sending());
        adapters.remove(PortId(1));
        assert!(!adapters.is_sending() && adapters.deadline().is_none());
    }
}
