//! The other ends of a tunnel, and which station is behind which.
//!
//! Peers are stated by the owner; stations are learned from the inner source addresses of frames
//! that came from a stated peer (RFC 7348 section 4.1). A table of [`STATIONS_MAX`] stations is
//! bounded memory: when it is full, nothing is learned until stations age, and frames to unknown
//! stations are flooded.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use vrdma_wire::Mac;

use crate::vxlan::Vni;

/// Peers of one tunnel: a flood copies a frame so many times.
pub(crate) const PEERS_MAX: usize = 256;

/// Stations behind all peers; 64 bytes each.
const STATIONS_MAX: usize = 16_384;

/// A station that was silent for so long is forgotten (the default of IEEE 802.1D bridges).
const STATION_AGE: Duration = Duration::from_secs(300);

/// A station that spoke so lately does not move: a machine that does takes longer, and a peer that
/// forges its address would draw its frames away in the middle of a connection.
const STATION_STAYS: Duration = Duration::from_millis(500);

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
    /// The last lesson: bursts come from one station.
    latest: Option<(Vni, Mac, SocketAddr, Instant)>,
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
            latest: None,
        }
    }

    pub(crate) fn add(&mut self, peer: SocketAddr) -> Result<(), PeerError> {
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
        if self.peers.len() == PEERS_MAX {
            return Err(PeerError::Full);
        }
        self.peers.push(peer);
        Ok(())
    }

    /// Forgets a peer and what is behind it; `false` if there was none.
    pub(crate) fn remove(&mut self, peer: SocketAddr) -> bool {
        let before = self.peers.len();
        self.peers.retain(|&other| other != peer);
        self.stations.retain(|_, station| station.peer != peer);
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
    pub(crate) fn learn(&mut self, vni: Vni, mac: Mac, peer: SocketAddr, now: Instant) {
        if mac.is_group() || mac == Mac::default() {
            return;
        }
        let lesson = Some((vni, mac, peer, now));
        if self.latest == lesson {
            return;
        }
        self.latest = lesson;
        let full = self.stations.len() >= STATIONS_MAX;
        let seen = Station { peer, seen: now };
        match self.stations.get_mut(&(vni, mac)) {
            Some(station) if station.stays(&seen) => {}
            Some(station) => *station = seen,
            None if full => {}
            None => drop(self.stations.insert((vni, mac), seen)),
        }
    }

    /// The peer that a station is behind.
    pub(crate) fn behind(&self, vni: Vni, mac: Mac) -> Option<SocketAddr> {
        self.stations.get(&(vni, mac)).map(|station| station.peer)
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

fn is_host(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_unspecified() && !ip.is_multicast() && !broadcast
}

#[cfg(test)]
mod tests {
    use super::*;

    const VNI: Vni = Vni::new(5).unwrap();

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn tunnel(peers: &[&str]) -> Peers {
        let mut table = Peers::new(address("192.0.2.1:4789"));
        for peer in peers {
            table.add(address(peer)).unwrap();
        }
        table
    }

    fn station(number: u32) -> Mac {
        let [a, b, c, d] = number.to_be_bytes();
        Mac([2, 0, a, b, c, d])
    }

    #[test]
    fn peers_are_checked() {
        let mut peers = tunnel(&["192.0.2.2:4789"]);
        for bad in [
            "192.0.2.1:4789",
            "192.0.2.3:0",
            "0.0.0.0:1",
            "224.0.0.1:1",
            "255.255.255.255:1",
        ] {
            assert_eq!(
                peers.add(address(bad)),
                Err(PeerError::NotAHost(address(bad)))
            );
        }
        let again = address("192.0.2.2:4789");
        assert_eq!(peers.add(again), Err(PeerError::Duplicate(again)));
        assert!(matches!(
            peers.add(address("[fd00::2]:4789")),
            Err(PeerError::Family { .. })
        ));
        for host in 0..PEERS_MAX - 1 {
            let peer = SocketAddr::from(([10, 0, 0, host as u8], 4789));
            peers.add(peer).unwrap();
        }
        assert_eq!(peers.add(address("10.1.0.1:4789")), Err(PeerError::Full));
    }

    #[test]
    fn senders_are_known_by_address_unless_two_share_it() {
        let peers = tunnel(&["192.0.2.2:4789", "192.0.2.3:1", "192.0.2.3:2"]);
        assert_eq!(
            peers.sender(address("192.0.2.2:50000")),
            Some(address("192.0.2.2:4789"))
        );
        assert_eq!(
            peers.sender(address("192.0.2.3:2")),
            Some(address("192.0.2.3:2"))
        );
        assert_eq!(peers.sender(address("192.0.2.3:3")), None);
        assert_eq!(peers.sender(address("192.0.2.4:4789")), None);
    }

    #[test]
    fn stations_move_age_and_go_with_their_peer() {
        let mut peers = tunnel(&["192.0.2.2:4789", "192.0.2.3:4789"]);
        let [two, three] = [address("192.0.2.2:4789"), address("192.0.2.3:4789")];
        let start = Instant::now();
        peers.learn(VNI, station(1), two, start);
        assert_eq!(peers.behind(VNI, station(1)), Some(two));
        assert_eq!(peers.behind(Vni::new(6).unwrap(), station(1)), None);
        peers.learn(VNI, station(1), three, start + Duration::from_secs(200));
        peers.learn(VNI, station(2), two, start);
        peers.age(start + STATION_AGE);
        assert_eq!(peers.behind(VNI, station(1)), Some(three));
        assert_eq!(peers.behind(VNI, station(2)), None);
        assert!(peers.remove(three) && !peers.remove(three));
        assert_eq!(peers.behind(VNI, station(1)), None);
    }

    #[test]
    fn a_station_that_speaks_is_not_drawn_away() {
        let mut peers = tunnel(&["192.0.2.2:4789", "192.0.2.3:4789"]);
        let [two, three] = [address("192.0.2.2:4789"), address("192.0.2.3:4789")];
        let mut now = Instant::now();
        for _ in 0..5 {
            peers.learn(VNI, station(1), two, now);
            now += STATION_STAYS / 2;
            peers.learn(VNI, station(1), three, now);
            assert_eq!(peers.behind(VNI, station(1)), Some(two));
        }
        now += STATION_STAYS;
        peers.learn(VNI, station(1), three, now);
        assert_eq!(peers.behind(VNI, station(1)), Some(three));
    }

    #[test]
    fn groups_are_not_learned_and_the_table_ends() {
        let mut peers = tunnel(&["192.0.2.2:4789"]);
        let (peer, now) = (address("192.0.2.2:4789"), Instant::now());
        peers.learn(VNI, Mac::BROADCAST, peer, now);
        peers.learn(VNI, Mac::default(), peer, now);
        assert!(peers.stations.is_empty());
        for number in 0..STATIONS_MAX as u32 + 10 {
            peers.learn(VNI, station(number), peer, now);
        }
        assert_eq!(peers.stations.len(), STATIONS_MAX);
    }
}
