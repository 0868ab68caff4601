//! Uplinks, by which a host's frames leave it, and the peers behind a tunnel.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::shortened;
use crate::{MacAddress, Name, Origin, Vni};

/// UDP port of VXLAN (RFC 7348 section 8).
const VXLAN_PORT: u16 = 4789;

/// Medium of an uplink.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UplinkKind {
    /// A network interface: adapters appear behind it with their own addresses. Needs CAP_NET_RAW.
    Raw,
    /// VXLAN over UDP to other daemons. Needs no privilege.
    Tunnel,
}

impl fmt::Display for UplinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Raw => "raw",
            Self::Tunnel => "tunnel",
        })
    }
}

/// Name of a network interface: 1 to 15 bytes, no slash, colon or blank, as the kernel requires.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Interface(String);

impl Interface {
    /// Longest name in bytes (`IFNAMSIZ` of Linux without its zero).
    pub const BYTES_MAX: usize = 15;

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is not an [`Interface`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAnInterface(String);

impl fmt::Display for NotAnInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not the name of an interface: use 1 to 15 characters such as eth1",
            shortened(&self.0)
        )
    }
}

impl std::error::Error for NotAnInterface {}

impl FromStr for Interface {
    type Err = NotAnInterface;

    fn from_str(text: &str) -> Result<Self, NotAnInterface> {
        let allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':');
        let length = (1..=Self::BYTES_MAX).contains(&text.len());
        if length && text.bytes().all(allowed) && !matches!(text, "." | "..") {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAnInterface(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Interface {
    type Error = NotAnInterface;

    fn try_from(text: String) -> Result<Self, NotAnInterface> {
        text.parse()
    }
}

impl From<Interface> for String {
    fn from(interface: Interface) -> Self {
        interface.0
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One end of a tunnel: an IP address and a UDP port, 4789 if left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint(SocketAddr);

impl Endpoint {
    /// Returns address and port.
    pub const fn get(self) -> SocketAddr {
        self.0
    }
}

/// Why a text is not an [`Endpoint`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAnEndpoint(String);

impl fmt::Display for NotAnEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not an end of a tunnel: write an IP address and, unless it is 4789, a port, such as 192.0.2.1:4789 or [2001:db8::1]:4789",
            shortened(&self.0)
        )
    }
}

impl std::error::Error for NotAnEndpoint {}

impl FromStr for Endpoint {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Self, NotAnEndpoint> {
        let alone = || Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, VXLAN_PORT));
        let address = text.parse().ok().or_else(alone);
        let usable = |address: &SocketAddr| address.port() != 0 && !address.ip().is_multicast();
        let address = address.filter(usable).map(Self);
        address.ok_or_else(|| NotAnEndpoint(text.to_owned()))
    }
}

impl TryFrom<String> for Endpoint {
    type Error = NotAnEndpoint;

    fn try_from(text: String) -> Result<Self, NotAnEndpoint> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.to_string()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

/// An uplink to add. A raw one states its `interface`, a tunnel the address to `listen` at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UplinkRequest {
    /// Unique among uplinks.
    pub name: Name,
    /// Its medium.
    pub kind: UplinkKind,
    /// Interface of a raw uplink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// Local end of a tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<Endpoint>,
    /// File with the key of a tunnel, for peers without one of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Faults to inject into its frames, for tests: `loss=1%,delay=1ms,seed=7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<String>,
}

/// An uplink.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Uplink {
    /// Unique among uplinks.
    pub name: Name,
    /// Its medium.
    pub kind: UplinkKind,
    /// Interface of a raw uplink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// Local end of a tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<Endpoint>,
    /// File with the key of a tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Faults that it injects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<String>,
    /// Whether it outlives the daemon.
    pub origin: Origin,
    /// Longest IP packet of an adapter that fits, in bytes.
    pub mtu: u32,
    /// Other ends of a tunnel.
    #[serde(default)]
    pub peers: Vec<Endpoint>,
    /// Traffic.
    #[serde(default)]
    pub stats: UplinkStats,
}

/// Traffic of an uplink. All counters begin at its creation and never go back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UplinkStats {
    /// Frames of the guests' own Ethernet traffic.
    pub ethernet: FrameStats,
    /// RoCEv2 packets.
    pub roce: FrameStats,
}

/// Frames in both directions, and drops.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FrameStats {
    /// Frames that left.
    pub tx_frames: u64,
    /// Bytes of these frames.
    pub tx_bytes: u64,
    /// Frames received, including those that were dropped.
    pub rx_frames: u64,
    /// Bytes of these frames.
    pub rx_bytes: u64,
    /// Drops, by reason; a reason that never occurred is absent.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Frames from a station that had just sent from behind another peer: two machines have one address, or one forges
    /// it.
    #[serde(default)]
    pub contested: u64,
    /// How often a silent station appeared behind another peer.
    #[serde(default)]
    pub moved: u64,
}

impl FrameStats {
    /// Adds the counters of another end of the same uplink.
    pub fn add(&mut self, other: &Self) {
        self.tx_frames += other.tx_frames;
        self.tx_bytes += other.tx_bytes;
        self.rx_frames += other.rx_frames;
        self.rx_bytes += other.rx_bytes;
        self.contested += other.contested;
        self.moved += other.moved;
        for (reason, count) in &other.drops {
            *self.drops.entry(reason.clone()).or_default() += count;
        }
    }
}

/// A peer to add: the other end of a tunnel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerRequest {
    /// The tunnel.
    pub uplink: Name,
    /// Address at which the peer listens.
    pub address: Endpoint,
    /// Whether it may send from ports other than that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_port: bool,
    /// File with the key of both ends; if absent, the uplink's key is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// All stations that may be behind it; any, if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stations: Vec<MacAddress>,
    /// All networks that it takes part in; those of all port groups, if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnis: Vec<Vni>,
}

/// A peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// The request that added it.
    #[serde(flatten)]
    pub request: PeerRequest,
    /// Whether traffic in both directions is sealed.
    #[serde(default)]
    pub sealed: bool,
    /// Whether it outlives the daemon.
    pub origin: Origin,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_the_port_of_vxlan() {
        let shown = |text: &str| text.parse::<Endpoint>().map(|end| end.to_string());
        assert_eq!(shown("192.0.2.1"), Ok("192.0.2.1:4789".to_owned()));
        assert_eq!(shown("192.0.2.1:5"), Ok("192.0.2.1:5".to_owned()));
        assert_eq!(shown("2001:db8::1"), Ok("[2001:db8::1]:4789".to_owned()));
        for bad in ["", "eth1", "192.0.2.1:0", "192.0.2.1:65536", "239.0.0.1"] {
            assert!(shown(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_peer_is_told_as_it_was_asked_for() {
        let told = r#"{"uplink":"up0","address":"192.0.2.2:4789","any_port":true,"vnis":[7],"sealed":true,"origin":"config"}"#;
        let peer: Peer = serde_json::from_str(told).unwrap();
        assert!(peer.request.any_port && peer.request.stations.is_empty());
        assert_eq!(serde_json::to_string(&peer).unwrap(), told);
        assert!(serde_json::from_str::<PeerRequest>(told).is_err(), "origin");
    }

    #[test]
    fn interfaces_are_named_as_the_kernel_names_them() {
        for good in ["eth0", "a", "enp0s31f6.10", "fifteen-bytes-x"] {
            assert!(good.parse::<Interface>().is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "a:1", "sixteen-bytes-xx", "ä"] {
            assert!(bad.parse::<Interface>().is_err(), "{bad}");
        }
    }
}
