//! Which Ethernet address an IP address of another host has, and behind which uplink.
//!
//! Learned from traffic that passes anyway: ARP and neighbour discovery, and RoCE packets. Guests resolve addresses by
//! themselves; the table is for adapters without a kernel behind them, and for answers to peers that were heard before.

use alloc::collections::BTreeMap;

use vrdma_wire::{EtherType, EthernetView, Gid, Ipv6View, Mac};

use crate::{GroupId, UplinkId};

/// Most neighbours of one group, twice what a /21 network holds. Beyond that, new ones are not learned until old ones
/// age.
pub const NEIGHBOURS_MAX: usize = 4096;

/// A neighbour not heard for this long is forgotten: as long as a bridge keeps its station.
pub const NEIGHBOUR_AGE_NS: u64 = crate::STATION_AGE_NS;

/// A full table is searched for aged neighbours at most this often.
const SEARCH_INTERVAL_NS: u64 = 1_000_000_000;

/// Where the owner of an address is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// The owner's station, or the router in front of it.
    pub mac: Mac,
    /// The uplink behind which it was heard.
    pub uplink: UplinkId,
}

#[derive(Clone, Copy)]
struct Entry {
    neighbour: Neighbour,
    at: u64,
    /// The owner said so itself, by ARP or neighbour discovery.
    said: bool,
}

impl Entry {
    fn is_fresh(self, now: u64) -> bool {
        now.saturating_sub(self.at) < NEIGHBOUR_AGE_NS
    }
}

#[derive(Default)]
struct Network {
    neighbours: BTreeMap<Gid, Entry>,
    search_again: u64,
}

/// The table.
#[derive(Default)]
pub struct Neighbours {
    networks: BTreeMap<GroupId, Network>,
}

impl Neighbours {
    /// Makes an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes where `gid` in `group` said at `now` that it is; `true` if that is news.
    pub fn hear(&mut self, group: GroupId, gid: Gid, neighbour: Neighbour, now: u64) -> bool {
        let said = true;
        let at = now;
        let heard = Entry {
            neighbour,
            at,
            said,
        };
        self.note(group, gid, heard)
    }

    fn note(&mut self, group: GroupId, gid: Gid, heard: Entry) -> bool {
        let Entry { neighbour, at, .. } = heard;
        let network = self.networks.entry(group).or_default();
        let known = network.neighbours.get(&gid).map(|heard| heard.neighbour);
        if known.is_none() && !network.has_room(at) {
            return false;
        }
        network.neighbours.insert(gid, heard);
        known != Some(neighbour)
    }

    /// Notes that a packet from `gid` came that way. Anybody can write that into a packet, so it counts only where
    /// nothing better is known. `true` if that is news.
    pub fn guess(&mut self, group: GroupId, gid: Gid, neighbour: Neighbour, now: u64) -> bool {
        let known = self
            .networks
            .get(&group)
            .and_then(|it| it.neighbours.get(&gid));
        match known {
            Some(heard) if heard.is_fresh(now) && heard.neighbour != neighbour => false,
            heard => {
                let said = heard.is_some_and(|it| it.said && it.neighbour == neighbour);
                let guessed = Entry {
                    neighbour,
                    at: now,
                    said,
                };
                self.note(group, gid, guessed)
            }
        }
    }

    /// Whether a packet in the name of `gid` comes from another station than the one that has lately said to have the
    /// address.
    pub fn contradicts(&self, group: GroupId, gid: Gid, station: Mac, now: u64) -> bool {
        let network = self.networks.get(&group);
        let heard = network.and_then(|it| it.neighbours.get(&gid));
        heard.is_some_and(|it| it.said && it.is_fresh(now) && it.neighbour.mac != station)
    }

    /// Returns where `gid` of `group` is.
    pub fn find(&self, group: GroupId, gid: Gid, now: u64) -> Option<Neighbour> {
        let heard = self.networks.get(&group)?.neighbours.get(&gid)?;
        heard.is_fresh(now).then_some(heard.neighbour)
    }

    /// Forgets a neighbour that is not where it was heard; `true` if it was known.
    pub fn lose(&mut self, group: GroupId, gid: Gid) -> bool {
        let network = self.networks.get_mut(&group);
        network.is_some_and(|it| it.neighbours.remove(&gid).is_some())
    }

    /// Forgets all neighbours heard behind an uplink.
    pub fn forget_behind(&mut self, uplink: UplinkId) {
        for network in self.networks.values_mut() {
            let elsewhere = |heard: &Entry| heard.neighbour.uplink != uplink;
            network.neighbours.retain(|_, heard| elsewhere(heard));
        }
    }

    /// Forgets all neighbours of a group.
    pub fn forget(&mut self, group: GroupId) {
        self.networks.remove(&group);
    }
}

impl Network {
    fn has_room(&mut self, now: u64) -> bool {
        if self.neighbours.len() >= NEIGHBOURS_MAX && now >= self.search_again {
            self.search_again = now.saturating_add(SEARCH_INTERVAL_NS);
            self.neighbours.retain(|_, heard| heard.is_fresh(now));
        }
        self.neighbours.len() < NEIGHBOURS_MAX
    }
}

/// Returns who says in an ARP or neighbour discovery frame that it has an address.
///
/// An ARP sender counts whatever the operation is (RFC 826); a neighbour solicitation or advertisement counts if it
/// comes from the address itself. The Ethernet source must be the same station, so that nobody advertises another's.
pub fn sender(frame: &[u8]) -> Option<(Gid, Mac)> {
    let ethernet = EthernetView::new(frame).ok()?;
    let (gid, said) = match ethernet.ether_type() {
        EtherType::ARP => arp_sender(ethernet.payload())?,
        EtherType::IPV6 => (discovery_sender(ethernet.payload())?, ethernet.source()),
        _ => return None,
    };
    let is_station = !said.is_group() && said != Mac::default();
    let plausible = said == ethernet.source() && is_station && !gid.is_zero();
    (plausible && !gid.is_multicast()).then_some((gid, said))
}

/// Returns the sender in ARP for Ethernet and IPv4 (RFC 826): 8 bytes of kind, then the sender's two addresses.
fn arp_sender(arp: &[u8]) -> Option<(Gid, Mac)> {
    const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
    let (kind, rest) = arp.split_first_chunk::<8>()?;
    if kind[..6] != ETHERNET_IPV4 {
        return None;
    }
    let (mac, rest) = rest.split_first_chunk::<6>()?;
    let address = core::net::Ipv4Addr::from(*rest.first_chunk::<4>()?);
    if address.is_unspecified() || address.is_broadcast() {
        return None;
    }
    Some((Gid::from_ipv4(address), Mac(*mac)))
}

/// Returns the sender of a neighbour solicitation (135) or advertisement (136) (RFC 4861 4.3, 4.4), which are never
/// forwarded: their hop limit is 255.
fn discovery_sender(packet: &[u8]) -> Option<Gid> {
    const ICMPV6: u8 = 58;
    let ip = Ipv6View::new(packet).ok()?;
    let kind = ip.payload().first()?;
    let is_discovery = ip.next_header() == ICMPV6 && ip.hop_limit() == 255;
    (is_discovery && matches!(kind, 135 | 136)).then(|| Gid(ip.source().octets()))
}

#[cfg(test)]
mod tests;
