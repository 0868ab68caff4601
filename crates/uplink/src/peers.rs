//! The other ends of a tunnel, and which station is behind which.
//!
//! Peers are stated by the owner, and so may be the stations behind one: then nobody else is heard
//! from behind it, and they from behind nobody else. Other stations are learned from the inner source addresses of frames
//! that came from a stated peer (RFC 7348 section 4.1), of networks that a port group has.

mod stations;

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use vrdma_wire::Mac;

use crate::vxlan::Vni;
use stations::{Noted, Station, Stations};

/// Peers of one tunnel: a flood copies a frame so many times.
pub(crate) const PEERS_MAX: usize = 256;

/// Stations that owners state, of all peers of a tunnel together.
const STATED_MAX: usize = 16_384;

/// How often a conflict is told.
const CONFLICTS_APART: Duration = Duration::from_secs(60);

/// The other end of a tunnel, as its owner states it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerSpec {
    /// Where it listens, and what it sends from.
    pub address: SocketAddr,
    /// It may send from any port: a kernel VXLAN interface has one for each flow (RFC 7348 section 5), and a NAT
    /// in between chooses. `vrdmad` sends from where it listens.
    pub any_port: bool,
    /// All stations that may be behind it; any, if there are none.
    pub stations: Vec<Mac>,
    /// All networks that it takes part in; any, if there are none.
    pub networks: Vec<Vni>,
}

impl From<SocketAddr> for PeerSpec {
    /// One behind which any station of any network may be.
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            any_port: false,
            stations: Vec::new(),
            networks: Vec::new(),
        }
    }
}

impl PeerSpec {
    fn takes_part_in(&self, vni: Vni) -> bool {
        self.networks.is_empty() || self.networks.contains(&vni)
    }
}

/// Whether a frame is taken from a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admitted {
    Yes,
    /// The station is stated to be behind another peer, or others are behind this one.
    ForeignStation,
    /// The peer takes no part in the network.
    ForeignNetwork,
}

/// What a frame taught about its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Learned {
    /// Nothing strange.
    Plain,
    /// The station was behind another peer, and had been silent.
    Moved,
    /// The station spoke from behind another peer just before. It stays there.
    Contested,
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
    peers: Vec<PeerSpec>,
    stations: Stations,
    /// Stations that the owner has stated, of every network.
    stated: HashMap<Mac, SocketAddr>,
    /// The last learned: bursts come from one station.
    latest: Option<(Vni, Mac, SocketAddr, Instant)>,
    conflict: Option<Box<Conflict>>,
    told: Option<Instant>,
}

impl Peers {
    pub(crate) fn new(local: SocketAddr) -> Self {
        Self {
            local,
            peers: Vec::new(),
            stations: Stations::default(),
            stated: HashMap::new(),
            latest: None,
            conflict: None,
            told: None,
        }
    }

    /// Adds a peer.
    pub(crate) fn add(&mut self, spec: impl Into<PeerSpec>) -> Result<(), PeerError> {
        let spec = spec.into();
        let (peer, local) = (spec.address, self.local);
        if peer.is_ipv4() != local.is_ipv4() {
            return Err(PeerError::Family { peer, local });
        }
        if peer == local || peer.port() == 0 || !is_host(peer.ip()) {
            return Err(PeerError::NotAHost(peer));
        }
        if self.get(peer).is_some() {
            return Err(PeerError::Duplicate(peer));
        }
        if self.peers.len() == PEERS_MAX || self.stated.len() + spec.stations.len() > STATED_MAX {
            return Err(PeerError::Full);
        }
        let taken = |mac: &&Mac| is_nobody(**mac) || self.stated.contains_key(*mac);
        if let Some(&station) = spec.stations.iter().find(taken) {
            return Err(PeerError::Station { station, peer });
        }
        self.stated
            .extend(spec.stations.iter().map(|mac| (*mac, peer)));
        self.peers.push(spec);
        self.latest = None;
        Ok(())
    }

    /// Forgets a peer and what is behind it; `false` if there was none.
    pub(crate) fn remove(&mut self, peer: SocketAddr) -> bool {
        let before = self.peers.len();
        self.peers.retain(|other| other.address != peer);
        self.stations.forget(peer);
        self.stated.retain(|_, owner| *owner != peer);
        self.latest = None;
        self.peers.len() < before
    }

    fn get(&self, address: SocketAddr) -> Option<&PeerSpec> {
        self.peers.iter().find(|peer| peer.address == address)
    }

    /// Every peer.
    pub(crate) fn all(&self) -> impl Iterator<Item = SocketAddr> {
        self.peers.iter().map(|peer| peer.address)
    }

    /// Those that take part in a network.
    pub(crate) fn of_network(&self, vni: Vni) -> impl Iterator<Item = SocketAddr> {
        let members = self.peers.iter().filter(move |it| it.takes_part_in(vni));
        members.map(|peer| peer.address)
    }

    /// Whether a peer takes part in a network.
    pub(crate) fn takes_part(&self, peer: SocketAddr, vni: Vni) -> bool {
        self.get(peer).is_some_and(|peer| peer.takes_part_in(vni))
    }

    /// The peer that a datagram came from. An address alone names its peer where that may send from any
    /// port, unless several such share it.
    pub(crate) fn sender(&self, from: SocketAddr) -> Option<SocketAddr> {
        if self.get(from).is_some() {
            return Some(from);
        }
        let named = |peer: &&PeerSpec| peer.any_port && peer.address.ip() == from.ip();
        let mut same = self.peers.iter().filter(named);
        match (same.next(), same.next()) {
            (Some(peer), None) => Some(peer.address),
            _ => None,
        }
    }

    /// Whether a frame of a network may come from a station behind a peer.
    pub(crate) fn admits(&self, vni: Vni, mac: Mac, peer: SocketAddr) -> Admitted {
        let latest = self.latest.as_ref();
        if latest.is_some_and(|it| (it.0, it.1, it.2) == (vni, mac, peer)) {
            return Admitted::Yes;
        }
        let Some(spec) = self.get(peer).filter(|peer| peer.takes_part_in(vni)) else {
            return Admitted::ForeignNetwork;
        };
        match self.stated.get(&mac) {
            Some(owner) if *owner != peer => Admitted::ForeignStation,
            None if !spec.stations.is_empty() => Admitted::ForeignStation,
            _ => Admitted::Yes,
        }
    }

    /// Notes that a station spoke from behind a peer that it is admitted from.
    pub(crate) fn learn(&mut self, vni: Vni, mac: Mac, peer: SocketAddr, now: Instant) -> Learned {
        let latest = Some((vni, mac, peer, now));
        if self.latest == latest {
            return Learned::Plain;
        }
        if self.stated.contains_key(&mac) {
            self.latest = latest;
            return Learned::Plain;
        }
        if is_nobody(mac) {
            return Learned::Plain;
        }
        let learned = match self.stations.hear(vni, mac, Station { peer, seen: now }) {
            Noted::Plain => Learned::Plain,
            Noted::Moved => Learned::Moved,
            Noted::Stays(behind) => {
                self.conflict = Some(Box::new(Conflict {
                    network: vni.get(),
                    station: mac,
                    peer: behind,
                    other: peer,
                }));
                return Learned::Contested;
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
        let stated = self.stated.get(&mac).copied();
        match stated {
            Some(peer) => Some(peer).filter(|peer| self.takes_part(*peer, vni)),
            None => self.stations.behind(vni, mac),
        }
    }

    /// Forgets stations that are silent.
    pub(crate) fn age(&mut self, now: Instant) {
        self.stations.age(now);
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
