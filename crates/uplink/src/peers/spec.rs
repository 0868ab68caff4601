//! What the owner states about a peer, and why a peer is refused.

use std::net::SocketAddr;

use vrdma_wire::Mac;

use super::PEERS_MAX;
use crate::seal::Keys;
use crate::vxlan::Vni;

/// The other end of a tunnel, as its owner states it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerSpec {
    /// Address at which it listens, and from which it sends.
    pub address: SocketAddr,
    /// Whether it may send from any port: a kernel VXLAN interface has one for each flow (RFC 7348 section 5), and a
    /// NAT in between chooses one. `vrdmad` sends from the port at which it listens.
    pub any_port: bool,
    /// All stations that may be behind it; any station, if the list is empty.
    pub stations: Vec<Mac>,
    /// All networks that it takes part in; any network, if the list is empty.
    pub networks: Vec<Vni>,
    /// Keys that seal datagrams to it and from it.
    pub keys: Option<Keys>,
}

impl From<SocketAddr> for PeerSpec {
    /// A peer behind which any station of any network may be.
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            any_port: false,
            stations: Vec::new(),
            networks: Vec::new(),
            keys: None,
        }
    }
}

impl PeerSpec {
    pub(super) fn takes_part_in(&self, vni: Vni) -> bool {
        self.networks.is_empty() || self.networks.contains(&vni)
    }
}

/// Why a peer is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PeerError {
    /// An IPv6 peer at an IPv4 tunnel, or the other way round.
    #[error("peer {peer} cannot be reached from {local}: one is IPv4, the other IPv6")]
    Family {
        /// The peer.
        peer: SocketAddr,
        /// The tunnel's own address.
        local: SocketAddr,
    },
    /// The address is the tunnel's own, a group, or no address.
    #[error(
        "{0} cannot be a peer: it is this tunnel's own address, or not the address of one host and port"
    )]
    NotAHost(SocketAddr),
    /// The peer is there already.
    #[error("{0} is a peer already")]
    Duplicate(SocketAddr),
    /// The station is stated for another peer, or the address is not a station's.
    #[error(
        "the station {station} cannot be behind {peer}: it is behind another peer, or not the address of one adapter"
    )]
    Station {
        /// The station.
        station: Mac,
        /// The peer.
        peer: SocketAddr,
    },
    /// The kernel gives no random numbers.
    #[error("the system has no random numbers to seal with")]
    NoRandomness,
    /// The table is full.
    #[error("a tunnel has at most {PEERS_MAX} peers; remove one first")]
    Full,
}
