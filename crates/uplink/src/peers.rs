//! The other ends of a tunnel, and which station is behind which.
//!
//! Peers are stated by the owner, and so may be the stations behind one: then nobody else is heard
//! from behind it, and they from behind nobody else. Other stations are learned from the inner source addresses of frames
//! that came from a stated peer (RFC 7348 section 4.1). A table of [`STATIONS_MAX`] stations is
//! bounded memory: when it is full, nothing is learned until stations age, and frames to unknown
//! stations are flooded.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use vrdma_wire::Mac;

use crate::vxlan::Vni;

/// Peers of one tunnel: a flood copies a frame so many times.
pub(crate) const PEERS_MAX: usize = 256;

/// Stations behind all peers; 64 bytes each.
const STATIONS_MAX: usize = 16_384;

/// Stations that owners state, of all peers of a tunnel together.
const STATED_MAX: usize = 16_384;

/// A station that was silent for so long is forgotten (the default of IEEE 802.1D bridges).
const STATION_AGE: Duration = Duration::from_secs(300);

/// A station that spoke so lately does not move: a machine that does takes longer, and a peer that
/// forges its address would draw its frames away in the middle of a connection.
const STATION_STAYS: Duration = Duration::from_millis(500);

/// How often a conflict is told.
const CONFLICTS_APART: Duration = Duration::from_secs(60);

/// What a frame taught about its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Learned {
    /// Nothing strange.
    Plain,
    /// The station was behind another peer, and had been silent.
    Moved,
    /// The station spoke from behind another peer just before. It stays there.
    Contested,
    /// The station is stated to be behind another peer, or others are behind this one. The frame is
    /// nobody's.
    Foreign,
}

/// A station that two peers claim: two machines have one address, or somebody forges it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The VXLAN network.
    pub network: u32,
    /// The station.
    pub station: Mac,
    /// Behind whom it is.
    pub peer: SocketAddr,
    /// From behind whom it spoke as well.
    pub other: SocketAddr,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            network,
            station,
            peer,
            other,
        } = self;
        write!(
            f,
            "station {station} of network {network} speaks from behind {peer} and {other}: two machines have one address, or one forges it; its frames go to {peer}"
        )
    }
}

/// Why a peer is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PeerError {
    /// IPv6 at an IPv4 tunnel, or the other way round.
    #[error("peer {peer} cannot be reached from {local}: one is IPv4, the other IPv6")]
    Family {
        /// The peer.
        peer: SocketAddr,
        /// The tunnel's own address.
        local: SocketAddr,
    },
    /// The tunnel's own address, a group, or none.
    #[error(
        "{0} cannot be a peer: it is this tunnel's own address, or not the address of one host and port"
    )]
    NotAHost(SocketAddr),
    /// It is there already.
    #[error("{0} is a peer already")]
    Duplicate(SocketAddr),
    /// A station is stated for another peer, or is none.
    #[error(
        "the station {station} cannot be behind {peer}: it is behind another peer, or not the address of one adapter"
    )]
    Station {
        /// The station.
        station: Mac,
        /// The peer.
        peer: SocketAddr,
    },
    /// The table is full.
    #[error("a tunnel has at most {PEERS_MAX} peers; remove one first")]
    Full,
}

/// Peers and stations of one tunnel.
#[derive(Debug)]
pub(crate) struct Peers {
    local: SocketAddr,
    peers: Vec<SocketAddr>,
    stations: HashMap<(Vni, Mac), Station>,
    /// Stations that the owner has stated, of every network.
    stated: HashMap<Mac, SocketAddr>,
    /// The peers that those are behind.
    closed: Vec<SocketAddr>,
    /// The last learned: bursts come from one station.
    latest: Option<(Vni, Mac, SocketAddr, Instant)>,
    conflict: Option<Box<Conflict>>,
    told: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Station {
    peer: SocketAddr,
    seen: Instant,
}

impl Peers {
    pub(crate) fn new(local: SocketAddr) -> Self {
        Self {
            local,
            peers: Vec::new(),
            stations: HashMap::new(),
            stated: HashMap::new(),
            closed: Vec::new(),
            latest: None,
            conflict: None,
            told: None,
        }
    }

    /// Adds a peer behind which any station may be.
    #[cfg(test)]
    pub(crate) fn add(&mut self, peer: SocketAddr) -> Result<(), PeerError> {
        self.add_with(peer, &[])
    }

    /// Adds a peer, with all stations that may be behind it unless there are none.
    pub(crate) fn add_with(&mut self, peer: SocketAddr, stations: &[Mac]) -> Result<(), PeerError> {
        let local = self.local;
        if peer.is_ipv4() != local.is_ipv4() {
            return Err(PeerError::Family { peer, local });
        }
        if peer == local || peer.port() == 0 || !is_host(peer.ip()) {
            return Err(PeerError::NotAHost(peer));
        }
        if self.peers.contains(&peer) {
            return Err(PeerError::Duplicate(peer));
        }
        if self.peers.len() == PEERS_MAX || self.stated.len() + stations.len() > STATED_MAX {
            return Err(PeerError::Full);
        }
        let taken = |mac: &&Mac| is_nobody(**mac) || self.stated.contains_key(*mac);
        if let Some(&station) = stations.iter().find(taken) {
            return Err(PeerError::Station { station, peer });
        }
        self.peers.push(peer);
        self.closed.extend((!stations.is_empty()).then_some(peer));
        self.stated.extend(stations.iter().map(|mac| (*mac, peer)));
        self.latest = None;
        Ok(())
    }

    /// Forgets a peer and what is behind it; `false` if there was none.
    pub(crate) fn remove(&mut self, peer: SocketAddr) -> bool {
        let before = self.peers.len();
        self.peers.retain(|&other| other != peer);
        self.stations.retain(|_, station| station.peer != peer);
        self.stated.retain(|_, owner| *owner != peer);
        self.closed.retain(|&other| other != peer);
        self.latest = None;
        self.peers.len() < before
    }

    pub(crate) fn all(&self) -> &[SocketAddr] {
        &self.peers
    }

    /// The peer that a datagram came from. Other VXLAN senders use a source port for each flow
    /// (RFC 7348 section 5), so an address alone names its peer, unless several peers share it.
    pub(crate) fn sender(&self, from: SocketAddr) -> Option<SocketAddr> {
        if self.peers.contains(&from) {
            return Some(from);
        }
        let mut same = self.peers.iter().filter(|peer| peer.ip() == from.ip());
        match (same.next(), same.next()) {
            (Some(&peer), None) => Some(peer),
            _ => None,
        }
    }

    /// Notes that a station spoke from behind a peer.
    pub(crate) fn learn(&mut self, vni: Vni, mac: Mac, peer: SocketAddr, now: Instant) -> Learned {
        let latest = Some((vni, mac, peer, now));
        if self.latest == latest {
            return Learned::Plain;
        }
        match self.stated.get(&mac) {
            Some(owner) if *owner == peer => {
                self.latest = latest;
                return Learned::Plain;
            }
            Some(_) => return Learned::Foreign,
            None if self.closed.contains(&peer) => return Learned::Foreign,
            None => {}
        }
        if is_nobody(mac) {
            return Learned::Plain;
        }
        let full = self.stations.len() >= STATIONS_MAX;
        let seen = Station { peer, seen: now };
        let learned = match self.stations.get_mut(&(vni, mac)) {
            Some(station) if station.stays(&seen) => {
                self.conflict = Some(Box::new(Conflict {
                    network: vni.get(),
                    station: mac,
                    peer: station.peer,
                    other: peer,
                }));
                return Learned::Contested;
            }
            Some(station) => {
                let before = std::mem::replace(station, seen).peer;
                if before == peer {
                    Learned::Plain
                } else {
                    Learned::Moved
                }
            }
            None if full => Learned::Plain,
            None => {
                self.stations.insert((vni, mac), seen);
                Learned::Plain
            }
        };
        self.latest = latest;
        learned
    }

    /// The last conflict, unless one was told lately.
    pub(crate) fn take_conflict(&mut self, now: Instant) -> Option<Conflict> {
        let lately = |told: Instant| now.saturating_duration_since(told) < CONFLICTS_APART;
        if self.told.is_some_and(lately) {
            return None;
        }
        let conflict = self.conflict.take()?;
        self.told = Some(now);
        Some(*conflict)
    }

    /// The peer that a station is behind.
    pub(crate) fn behind(&self, vni: Vni, mac: Mac) -> Option<SocketAddr> {
        let learned = || self.stations.get(&(vni, mac)).map(|station| station.peer);
        self.stated.get(&mac).copied().or_else(learned)
    }

    /// Forgets stations that were silent for [`STATION_AGE`].
    pub(crate) fn age(&mut self, now: Instant) {
        self.stations
            .retain(|_, station| now.saturating_duration_since(station.seen) < STATION_AGE);
    }
}

impl Station {
    /// Whether a frame from behind another peer is not believed: this station spoke just now.
    fn stays(&self, other: &Self) -> bool {
        let since = other.seen.saturating_duration_since(self.seen);
        self.peer != other.peer && since < STATION_STAYS
    }
}

fn is_nobody(mac: Mac) -> bool {
    mac.is_group() || mac == Mac::default()
}

fn is_host(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_unspecified() && !ip.is_multicast() && !broadcast
}

#[cfg(test)]
mod tests;
