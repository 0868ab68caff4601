//! Stations that were heard, and the peers that they are behind.
//!
//! All networks share one table of [`STATIONS_MAX`]. Once it is full, a network that has less than an equal share of it
//! takes from the network that has most: a guest that invents addresses fills its own network's share, and does not
//! cause the frames of others to be flooded.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use vrdma_wire::Mac;

use crate::vxlan::Vni;

/// Most stations behind all peers; each takes 64 bytes.
pub(super) const STATIONS_MAX: usize = 16_384;

/// A station that was silent for this long is forgotten (the default of IEEE 802.1D bridges).
pub(super) const STATION_AGE: Duration = Duration::from_secs(300);

/// A station does not move within this time after it was heard: a machine that moves takes longer, and a peer that
/// forges the station's address would divert its frames in the middle of a connection.
pub(super) const STATION_STAYS: Duration = Duration::from_millis(500);

/// The peer and time at which a station was heard last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Station {
    pub(super) peer: SocketAddr,
    pub(super) seen: Instant,
}

/// What hearing a station has changed.
pub(super) enum Noted {
    /// It is new, was there before, or has no room.
    Plain,
    /// It moved here, after it was silent behind another peer.
    Moved,
    /// It was just heard from behind this other peer, and stays there.
    Stays(SocketAddr),
}

/// The table of stations.
#[derive(Debug, Default)]
pub(super) struct Stations {
    networks: HashMap<Vni, HashMap<Mac, Station>>,
    count: usize,
}

impl Stations {
    /// Number of stations.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the peer that a station is behind.
    pub(super) fn behind(&self, vni: Vni, mac: Mac) -> Option<SocketAddr> {
        Some(self.networks.get(&vni)?.get(&mac)?.peer)
    }

    /// Notes that a station was heard.
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

    /// Whether a network may have one more station, at the expense of the largest network if need be.
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

    /// Forgets the stations behind a peer.
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
    /// Whether this station was heard so recently that a frame from behind another peer is not believed.
    fn stays(&self, other: &Self) -> bool {
        let since = other.seen.saturating_duration_since(self.seen);
        self.peer != other.peer && since < STATION_STAYS
    }
}
