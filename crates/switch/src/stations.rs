//! Learned MAC addresses: behind which port or uplink a station was last heard.
//!
//! A guest may bridge others behind its port (nested guests, containers), so stations besides the
//! configured ones are learned from source addresses. Every port has its own share of the table: a
//! guest that invents addresses fills its share and nobody else's. So has every uplink in every
//! group.

use alloc::collections::{BTreeMap, BTreeSet};

use vrdma_wire::Mac;

use crate::{GroupId, PortId, UplinkId};

/// Most learned stations of one port. Beyond that, new ones are not learned until old ones age: frames to them are
/// flooded, as to any unknown station.
pub const MAX_MACS_PER_PORT: usize = 256;

/// Most learned stations of one group behind one uplink, with the same effect beyond. Far more than the hosts that
/// broadcasts of one network reach.
pub const MAX_MACS_PER_UPLINK: usize = 4096;

/// A station not heard for this long is forgotten (IEEE 802.1D, the default ageing time of 300 s).
pub const STATION_AGE_NS: u64 = 300_000_000_000;

/// A full share is searched for aged stations at most this often, so that a flood of invented
/// addresses does not buy a search with every frame.
const SEARCH_INTERVAL_NS: u64 = 1_000_000_000;

/// Where a station is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Location {
    /// Behind a port.
    Port(PortId),
    /// On another host.
    Wire(UplinkId),
}

impl Location {
    const fn macs_max(self) -> usize {
        match self {
            Self::Port(_) => MAX_MACS_PER_PORT,
            Self::Wire(_) => MAX_MACS_PER_UPLINK,
        }
    }
}

#[derive(Clone, Copy)]
struct Station {
    place: Location,
    heard: u64,
}

impl Station {
    fn is_fresh(self, now: u64) -> bool {
        now.saturating_sub(self.heard) < STATION_AGE_NS
    }
}

#[derive(Default)]
struct Share {
    macs: BTreeSet<Mac>,
    search_again: u64,
}

/// The table of a bridge.
#[derive(Default)]
pub(crate) struct Stations {
    stations: BTreeMap<(GroupId, Mac), Station>,
    shares: BTreeMap<(Location, GroupId), Share>,
}

impl Stations {
    /// Returns where `mac` was last heard.
    pub(crate) fn find(&self, group: GroupId, mac: Mac, now: u64) -> Option<Location> {
        let station = self.stations.get(&(group, mac))?;
        station.is_fresh(now).then_some(station.place)
    }

    /// Notes that `mac` was heard at `place` in `group`.
    pub(crate) fn hear(&mut self, place: Location, group: GroupId, mac: Mac, now: u64) {
        match self.stations.get_mut(&(group, mac)) {
            Some(station) if station.place == place => station.heard = now,
            known => {
                let before = known.map(|station| station.place);
                self.learn(place, group, mac, now, before);
            }
        }
    }

    /// Learns a new station, or one that has moved. If the share of the new place is full, the station stays where it
    /// was, and ages there.
    fn learn(
        &mut self,
        place: Location,
        group: GroupId,
        mac: Mac,
        now: u64,
        before: Option<Location>,
    ) {
        if !self.has_room(place, group, now) {
            return;
        }
        if let Some(share) = before.and_then(|before| self.shares.get_mut(&(before, group))) {
            share.macs.remove(&mac);
        }
        self.shares
            .entry((place, group))
            .or_default()
            .macs
            .insert(mac);
        self.stations
            .insert((group, mac), Station { place, heard: now });
        let share = &self.shares[&(place, group)];
        debug_assert!(share.macs.len() <= place.macs_max(), "a share is bounded");
        debug_assert!(
            share.macs.len() <= self.stations.len(),
            "who is in a share is in the table"
        );
    }

    fn has_room(&mut self, place: Location, group: GroupId, now: u64) -> bool {
        let share = self.shares.entry((place, group)).or_default();
        if share.macs.len() >= place.macs_max() && now >= share.search_again {
            share.search_again = now.saturating_add(SEARCH_INTERVAL_NS);
            let stations = &mut self.stations;
            share.macs.retain(|&mac| {
                let fresh = stations
                    .get(&(group, mac))
                    .is_some_and(|it| it.is_fresh(now));
                if !fresh {
                    stations.remove(&(group, mac));
                }
                fresh
            });
        }
        share.macs.len() < place.macs_max()
    }

    /// Forgets `mac`, which is configured from now on and no longer learned.
    pub(crate) fn forget(&mut self, group: GroupId, mac: Mac) {
        let station = self.stations.remove(&(group, mac));
        if let Some(share) =
            station.and_then(|station| self.shares.get_mut(&(station.place, group)))
        {
            share.macs.remove(&mac);
        }
    }

    /// Forgets all stations of `group` that were heard at a place.
    pub(crate) fn forget_place(&mut self, place: Location, group: GroupId) {
        let share = self.shares.remove(&(place, group)).unwrap_or_default();
        for mac in share.macs {
            self.stations.remove(&(group, mac));
        }
    }

    #[cfg(test)]
    pub(crate) fn learned(&self) -> usize {
        self.stations.len()
    }
}
