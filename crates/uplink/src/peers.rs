//! The peers of a tunnel, and which station is behind which peer.
//!
//! The owner states the peers, and may state the stations behind a peer: then no other station is heard from behind it,
//! and these stations from behind no other peer. Other stations are learned from the inner source addresses of frames
//! that came from a stated peer (RFC 7348 section 4.1), in networks that a port group has.

mod complaint;
mod spec;
mod stations;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vrdma_wire::Mac;

use crate::counters::Loss;
use crate::seal::{Channel, Opened, Sealer, Sealing};
use crate::vxlan::Vni;
pub use complaint::{Complaint, Conflict};
pub use spec::{PeerError, PeerSpec};
use stations::{Noted, Station, Stations};

/// Most peers of one tunnel: a flood copies a frame once for each.
pub(crate) const PEERS_MAX: usize = 256;

/// Most stations that owners state, for all peers of a tunnel together.
const STATED_MAX: usize = 16_384;

/// Shortest time between two complaints.
const COMPLAINTS_APART: Duration = Duration::from_secs(60);

/// Whether a frame from a peer is taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admitted {
    Yes,
    /// The station is stated to be behind another peer, or other stations are stated for this one.
    ForeignStation,
    /// The peer does not take part in the network.
    ForeignNetwork,
}

/// What a frame showed about its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Learned {
    /// Nothing unusual.
    Plain,
    /// The station was behind another peer, and had been silent.
    Moved,
    /// The station was just heard from behind another peer. It stays there.
    Contested,
}

/// Peers and stations of one tunnel.
#[derive(Debug)]
pub(crate) struct Peers {
    local: SocketAddr,
    channel: Channel,
    peers: Vec<Peer>,
    stations: Stations,
    /// Stations that the owner has stated, of every network.
    stated: HashMap<Mac, SocketAddr>,
    /// The station learned last: bursts come from one station.
    latest: Option<(Vni, Mac, SocketAddr, Instant)>,
    complaint: Option<Box<Complaint>>,
    told: Option<Instant>,
    /// A call is probably due, because of something that a peer sent.
    stirred: bool,
}

#[derive(Debug)]
struct Peer {
    spec: PeerSpec,
    sealing: Option<Box<Sealing>>,
}

/// How datagrams reach a peer.
pub(crate) struct PeerPath {
    pub(crate) to: SocketAddr,
    pub(crate) sealer: Option<Arc<Sealer>>,
}

impl Peers {
    pub(crate) fn new(local: SocketAddr, channel: Channel) -> Self {
        Self {
            local,
            channel,
            peers: Vec::new(),
            stations: Stations::default(),
            stated: HashMap::new(),
            latest: None,
            complaint: None,
            told: None,
            stirred: false,
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
        let sealing = match spec.keys.clone() {
            Some(keys) => Some(Sealing::new(keys, self.channel).ok_or(PeerError::NoRandomness)?),
            None => None,
        };
        let sealing = sealing.map(Box::new);
        self.peers.push(Peer { spec, sealing });
        self.latest = None;
        Ok(())
    }

    /// Forgets a peer and the stations behind it. Returns `false` if there was no such peer.
    pub(crate) fn remove(&mut self, peer: SocketAddr) -> bool {
        let before = self.peers.len();
        self.peers.retain(|other| other.spec.address != peer);
        self.stations.forget(peer);
        self.stated.retain(|_, owner| *owner != peer);
        self.latest = None;
        self.peers.len() < before
    }

    fn get(&self, address: SocketAddr) -> Option<&PeerSpec> {
        self.specs().find(|peer| peer.address == address)
    }

    fn specs(&self) -> impl Iterator<Item = &PeerSpec> {
        self.peers.iter().map(|peer| &peer.spec)
    }

    fn sealing(&mut self, address: SocketAddr) -> Option<&mut Sealing> {
        let mut peers = self.peers.iter_mut();
        let peer = peers.find(|peer| peer.spec.address == address)?;
        peer.sealing.as_deref_mut()
    }

    /// Returns how datagrams reach a peer.
    pub(crate) fn way(&self, to: SocketAddr) -> Result<PeerPath, Loss> {
        let mut peers = self.peers.iter();
        let peer = peers.find(|peer| peer.spec.address == to);
        peer.ok_or(Loss::NoPeer)?.way()
    }

    /// Returns which of the tunnel's ports these peers belong to.
    pub(crate) fn channel(&self) -> Channel {
        self.channel
    }

    /// Whether datagrams from a peer must be sealed.
    pub(crate) fn is_sealed(&self, peer: SocketAddr) -> bool {
        self.get(peer).is_some_and(|peer| peer.keys.is_some())
    }

    /// Opens a sealed datagram of a peer that has keys.
    pub(crate) fn open(
        &mut self,
        peer: SocketAddr,
        datagram: &[u8],
        room: &mut [u8],
        now: Instant,
    ) -> Result<Opened, Loss> {
        let sealing = self.sealing(peer).ok_or(Loss::Unsealed)?;
        let opened = sealing.open(datagram, room, now);
        match &opened {
            Ok(Opened::Reply(_)) => self.stirred = true,
            Err(Loss::WrongKey) => self.complain(Complaint::WrongKey(peer)),
            _ => {}
        }
        opened
    }

    /// Notes a complaint for the owner, in place of an earlier one.
    pub(crate) fn complain(&mut self, complaint: Complaint) {
        self.complaint = Some(Box::new(complaint));
    }

    /// Returns the calls that are due, if something that a peer sent has made that likely.
    pub(crate) fn take_calls(&mut self, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
        if std::mem::take(&mut self.stirred) {
            self.calls(now)
        } else {
            Vec::new()
        }
    }

    /// Returns the calls that are due.
    pub(crate) fn calls(&mut self, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
        let calls = self.peers.iter_mut().filter_map(|peer| {
            let call = peer.sealing.as_mut()?.tend(now)?;
            Some((peer.spec.address, call))
        });
        calls.collect()
    }

    /// Returns every peer.
    pub(crate) fn all(&self) -> impl Iterator<Item = SocketAddr> {
        self.specs().map(|peer| peer.address)
    }

    /// Returns the peers that take part in a network.
    pub(crate) fn of_network(&self, vni: Vni) -> impl Iterator<Item = Result<PeerPath, Loss>> {
        let peers = self.peers.iter();
        let members = peers.filter(move |it| it.spec.takes_part_in(vni));
        members.map(Peer::way)
    }

    /// Whether a peer takes part in a network.
    pub(crate) fn takes_part(&self, peer: SocketAddr, vni: Vni) -> bool {
        self.get(peer).is_some_and(|peer| peer.takes_part_in(vni))
    }

    /// Returns the peer that a datagram came from. If a peer may send from any port, its address alone identifies it,
    /// unless several such peers share the address.
    pub(crate) fn sender(&self, from: SocketAddr) -> Option<SocketAddr> {
        if self.get(from).is_some() {
            return Some(from);
        }
        let named = |peer: &&PeerSpec| peer.any_port && peer.address.ip() == from.ip();
        let mut same = self.specs().filter(named);
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

    /// Notes that a station was heard from behind a peer from which it is admitted.
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
                self.complain(Complaint::Conflict(Conflict {
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

    /// Returns the last complaint, unless one was returned lately.
    pub(crate) fn take_complaint(&mut self, now: Instant) -> Option<Complaint> {
        let lately = |told: Instant| now.saturating_duration_since(told) < COMPLAINTS_APART;
        if self.told.is_some_and(lately) {
            return None;
        }
        let complaint = self.complaint.take()?;
        self.told = Some(now);
        Some(*complaint)
    }

    /// Returns the peer that a station is behind.
    pub(crate) fn behind(&self, vni: Vni, mac: Mac) -> Option<SocketAddr> {
        let stated = self.stated.get(&mac).copied();
        match stated {
            Some(peer) => Some(peer).filter(|peer| self.takes_part(*peer, vni)),
            None => self.stations.behind(vni, mac),
        }
    }

    /// Forgets silent stations.
    pub(crate) fn age(&mut self, now: Instant) {
        self.stations.age(now);
    }
}

impl Peer {
    fn way(&self) -> Result<PeerPath, Loss> {
        let sealer = match &self.sealing {
            Some(sealing) => Some(sealing.sealer().ok_or(Loss::NoSession)?),
            None => None,
        };
        let to = self.spec.address;
        Ok(PeerPath { to, sealer })
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
