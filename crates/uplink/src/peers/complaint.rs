//! Problems with peers that an administrator is told about once in a while.

use std::fmt;
use std::net::SocketAddr;

use vrdma_wire::Mac;

/// A station that two peers claim: two machines have one address, or somebody forges it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The VXLAN network.
    pub network: u32,
    /// The station.
    pub station: Mac,
    /// The peer that it is behind.
    pub peer: SocketAddr,
    /// The other peer from behind which it was heard.
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

/// A problem with a tunnel that its administrator should hear about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Complaint {
    /// Two peers claim a station.
    Conflict(Conflict),
    /// A peer calls with another key.
    WrongKey(SocketAddr),
    /// A peer with a key sends in the clear.
    Clear(SocketAddr),
    /// A peer without a key sends sealed datagrams.
    Sealed(SocketAddr),
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(conflict) => conflict.fmt(f),
            Self::WrongKey(peer) => write!(
                f,
                "the peer {peer} has another key; put the same into the key files of both hosts"
            ),
            Self::Clear(peer) => write!(
                f,
                "the peer {peer} has a key here and sends in the clear; state the key there too"
            ),
            Self::Sealed(peer) => write!(
                f,
                "the peer {peer} seals what it sends and has no key here; state the key here too"
            ),
        }
    }
}
