//! Stations that were heard, and behind which peer.
//!
//! One table of [`STATIONS_MAX`] for all networks. Once it is full, a network that has less than an equal
//! share of it takes from the one that has most: a guest that invents addresses fills what its own
//! network has, and the frames of others are not flooded because of it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use vrdma_wire::Mac;

use crate::vxlan::Vni;

/// Stations behind all peers; 64 bytes each.
pub(super) const STATIONS_MAX: usize = 16_384;

/// A station that was silent for so long is forgotten (the default of IEEE 802.1D bridges).
pub(super) const STATION_AGE: Duration = Duration::from_secs(300);

/// A station that spoke so lately does not move: a machine that does takes longer, and a peer that
/// forges its address would draw its frames away in the middle of a connection.
pub(super) const STATION_STAYS: Duration = Duration::from_millis(500);

/// Where a station was heard last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Station {
    pub(super) peer: SocketAddr,
    pub(super) seen: Instant,
}

/// What hearing a station has changed.
pub(super) enum Noted {
    /// It is new, was there before, or has no room.
    Plain,
    /// It was silent behind another peer.
    Moved,
    /// It spoke just now from behind this other peer, and stays there.
    Stays(SocketAddr),
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Stations {
    networks: HashMap<Vni, HashMap<Mac, Station>>,
    count: usize,
}

impl Stations {
    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The peer that a station is behind.
    pub(super) fn behind(&self, vni: Vni, mac: Mac) -> Option<SocketAddr> {
        Some(self.networks.get(&vni)?.get(&mac)?.peer)
    }

    /// Notes that a station spoke.
    pub(super) fn hear(&mut self, vni: Vni, mac: Mac, heard: Station) -> Noted {
        let known = self.networks.get_mut(&vni);
        if let Some(station) = known.and_then(|network| network.get_mut(&mac)) {
            if station.stays(&heard) {
                return Noted::Stays(station.peer);
            }
            let before = std::mem::replace(station, heard).peer;
            return if before == heard.peer {
                Noted::Plain
            } else {
                Noted::Moved
            };
        }
        if self.make_room(vni) {
            self.networks.entry(vni).or_default().insert(mac, heard);
            self.count += 1;
        }
        Noted::Plain
    }

    /// Whether a network may have one more, at the expense of the largest one if need be.
    fn make_room(&mut self, vni: Vni) -> bool {
        if self.count < STATIONS_MAX {
            return true;
        }
        let own = self.networks.get(&vni).map_or(0, HashMap::len);
        let share = STATIONS_MAX / (self.networks.len() + usize::from(own == 0));
        if own >= share {
            return false;
        }
        let largest = self.networks.values_mut().max_by_key(|it| it.len());
        let Some(largest) = largest else {
            return false;
        };
        let any = largest.keys().next().copied();
        let removed = any.and_then(|mac| largest.remove(&mac));
        self.count -= usize::from(removed.is_some());
        removed.is_some()
    }

    /// Forgets what was heard from behind a peer.
    pub(super) fn forget(&mut self, peer: SocketAddr) {
        self.keep(|station| station.peer != peer);
    }

    /// Forgets stations that were silent for [`STATION_AGE`].
    pub(super) fn age(&mut self, now: Instant) {
        self.keep(|station| now.saturating_duration_since(station.seen) < STATION_AGE);
    }

    fn keep(&mut self, wanted: impl Fn(&Station) -> bool) {
        for network in self.networks.values_mut() {
            network.retain(|_, station| wanted(station));
        }
        self.networks.retain(|_, network| !network.is_empty());
        self.count = self.networks.values().map(HashMap::len).sum();
    }
}

impl Station {
    /// Whether a frame from behind another peer is not believed: this station spoke just now.
    fn stays(&self, other: &Self) -> bool {
        let since = other.seen.saturating_duration_since(self.seen);
        self.peer != other.peer && since < STATION_STAYS
    }
}
