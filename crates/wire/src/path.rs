//! Everything below the BTH as a value: the path of a packet.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::address::{Gid, Mac};
use crate::ethernet::{EtherType, Ethernet, EthernetView, Vlan};
use crate::format::Format;
use crate::ip::{PROTOCOL_UDP, TrafficClass};
use crate::ipv4::Ipv4;
use crate::ipv6::{FlowLabel, Ipv6};
use crate::network::IpView;
use crate::udp::Udp;

/// The path of a packet. Lengths are not part of it: the builder knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// MAC of the next hop.
    pub destination: Mac,
    /// MAC of the sender's adapter.
    pub source: Mac,
    /// Tag, if the frame has one.
    pub vlan: Option<Vlan>,
    /// Source and destination.
    pub addresses: Addresses,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// UDP source port; the same for all packets of a queue pair, so that routers keep their order
    /// (annex A17.3.1).
    pub source_port: u16,
}

/// Two addresses of one IP version, and the other fields of that version's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Source address.
        source: Ipv4Addr,
        /// Destination address.
        destination: Ipv4Addr,
        /// Identification, which has no meaning in a packet that must not be fragmented (RFC 6864 4.1).
        identification: u16,
    },
    /// IPv6.
    V6 {
        /// Source address.
        source: Ipv6Addr,
        /// Destination address.
        destination: Ipv6Addr,
        /// Flow label.
        flow_label: FlowLabel,
    },
}

impl Addresses {
    /// Returns the addresses of two GIDs; `None` if only one of them is IPv4. Only IPv6 uses the label.
    pub fn between(sgid: Gid, dgid: Gid, flow_label: FlowLabel) -> Option<Self> {
        match (sgid.to_ipv4(), dgid.to_ipv4()) {
            (Some(source), Some(destination)) => Some(Self::V4 {
                source,
                destination,
                identification: 0,
            }),
            (None, None) => Some(Self::V6 {
                source: sgid.to_ipv6(),
                destination: dgid.to_ipv6(),
                flow_label,
            }),
            _ => None,
        }
    }

    /// Returns the source address.
    pub fn source(&self) -> Gid {
        match *self {
            Self::V4 { source, .. } => Gid::from_ipv4(source),
            Self::V6 { source, .. } => Gid(source.octets()),
        }
    }

    /// Returns the destination address.
    pub fn destination(&self) -> Gid {
        match *self {
            Self::V4 { destination, .. } => Gid::from_ipv4(destination),
            Self::V6 { destination, .. } => Gid(destination.octets()),
        }
    }

    const fn ether_type(&self) -> EtherType {
        match self {
            Self::V4 { .. } => EtherType::IPV4,
            Self::V6 { .. } => EtherType::IPV6,
        }
    }

    const fn ip_len(&self) -> usize {
        match self {
            Self::V4 { .. } => Ipv4::LEN,
            Self::V6 { .. } => Ipv6::LEN,
        }
    }
}

impl Path {
    /// Returns the path on which a packet came, by its headers.
    pub(crate) fn of(ethernet: EthernetView<'_>, ip: IpView<'_>, source_port: u16) -> Self {
        let addresses = match ip {
            IpView::V4(ip) => Addresses::V4 {
                source: ip.source(),
                destination: ip.destination(),
                identification: ip.identification(),
            },
            IpView::V6(ip) => Addresses::V6 {
                source: ip.source(),
                destination: ip.destination(),
                flow_label: ip.flow_label(),
            },
        };
        Self {
            destination: ethernet.destination(),
            source: ethernet.source(),
            vlan: ethernet.vlan(),
            addresses,
            traffic_class: ip.traffic_class(),
            hop_limit: ip.hop_limit(),
            source_port,
        }
    }

    /// Returns the bytes from the front of the frame to the IP header.
    pub fn ethernet_len(&self) -> usize {
        self.ethernet().buffer_len()
    }

    /// Returns the bytes from the front of the frame to the BTH.
    pub fn header_len(&self) -> usize {
        self.ethernet_len() + self.addresses.ip_len() + Udp::LEN
    }

    /// Returns the same path with an identification, which IPv6 does not have. Packets of one flow with consecutive
    /// numbers can leave as one, which a network card cuts and numbers in the same way (USO).
    #[must_use]
    pub fn identified(mut self, number: u16) -> Self {
        if let Addresses::V4 { identification, .. } = &mut self.addresses {
            *identification = number;
        }
        self
    }

    /// Writes the three headers in front of `len` bytes for a UDP port.
    pub(crate) fn emit(&self, port: u16, len: u16, frame: &mut [u8]) {
        let (ethernet, rest) = frame.split_at_mut(self.ethernet_len());
        let (ip, udp) = rest.split_at_mut(self.addresses.ip_len());
        self.ethernet().emit(ethernet);
        self.emit_ip(len + Udp::LEN as u16, ip);
        self.udp(port, len).emit(udp);
    }

    fn ethernet(&self) -> Ethernet {
        Ethernet {
            destination: self.destination,
            source: self.source,
            vlan: self.vlan,
            ether_type: self.addresses.ether_type(),
        }
    }

    fn emit_ip(&self, payload_len: u16, buffer: &mut [u8]) {
        match self.addresses {
            Addresses::V4 {
                source,
                destination,
                identification,
            } => Ipv4 {
                source,
                destination,
                traffic_class: self.traffic_class,
                identification,
                dont_fragment: true,
                ttl: self.hop_limit,
                protocol: PROTOCOL_UDP,
                payload_len,
            }
            .emit(buffer),
            Addresses::V6 {
                source,
                destination,
                flow_label,
            } => Ipv6 {
                source,
                destination,
                traffic_class: self.traffic_class,
                flow_label,
                next_header: PROTOCOL_UDP,
                hop_limit: self.hop_limit,
                payload_len,
            }
            .emit(buffer),
        }
    }

    fn udp(&self, destination: u16, payload_len: u16) -> Udp {
        Udp {
            source: self.source_port,
            destination,
            checksum: 0,
            payload_len,
        }
    }
}
