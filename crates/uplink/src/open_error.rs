//! Why an uplink cannot be opened, in sentences for the administrator who configured it.

use std::io;
use std::net::SocketAddr;

/// Why an uplink cannot be opened or changed. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no interface of this name.
    #[error("there is no network interface `{0}` on this host; `ip link` lists those there are")]
    NoInterface(String),
    /// The text cannot be an interface name.
    #[error("`{0}` is no interface name: 1 to 15 bytes, without `/`, blanks and zero bytes")]
    InterfaceName(String),
    /// Loopback, tun, IPoIB and others have no Ethernet frames.
    #[error("interface `{0}` does not carry Ethernet frames; use a NIC, a veth, a bridge or a TAP")]
    NotEthernet(String),
    /// CAP_NET_RAW is missing.
    #[error(
        "raw frames on `{0}` need the capability CAP_NET_RAW (for systemd: \
         AmbientCapabilities=CAP_NET_RAW); a tunnel uplink needs no rights"
    )]
    NotPermitted(String),
    /// Another socket has the address and port.
    #[error(
        "UDP {0} is in use; stop the other program (a kernel VXLAN interface takes 4789 too) \
         or listen on another port"
    )]
    InUse(SocketAddr),
    /// The address belongs to another machine.
    #[error("{0} is not an address of this host; `ip address` lists those there are")]
    NotLocal(SocketAddr),
    /// The address cannot be a peer's, or there are too many peers.
    #[error(transparent)]
    Peer(#[from] crate::PeerError),
    /// A raw uplink has no peers.
    #[error("a raw uplink has no peers: its frames go out on the interface")]
    NoPeersHere,
    /// Everything else.
    #[error("{what}: {source}")]
    System {
        /// The call that failed.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl OpenError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
