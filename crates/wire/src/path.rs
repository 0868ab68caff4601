//! Everything below the BTH as a value: which way a packet goes.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::address::{Gid, Mac};
use crate::ethernet::{EtherType, Ethernet, EthernetView, Vlan};
use crate::format::Format;
use crate::ip::{PROTOCOL_UDP, TrafficClass};
use crate::ipv4::Ipv4;
use crate::ipv6::{FlowLabel, Ipv6};
use crate::network::IpView;
use crate::udp::Udp;

/// The way of a packet. Lengths are not part of it: the builder knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Next hop.
    pub destination: Mac,
    /// Sender's adapter.
    pub source: Mac,
    /// Tag, if the frame has one.
    pub vlan: Option<Vlan>,
    /// From and to.
    pub addresses: Addresses,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// UDP source port; the same for all packets of a queue pair, so that routers keep their order
    /// (annex A17.3.1).
    pub source_port: u16,
}

/// Two addresses of one IP version, and what else that version's header has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// From.
        source: Ipv4Addr,
        /// To.
        destination: Ipv4Addr,
        /// Identification: means nothing in a packet that must not be cut (RFC 6864 4.1).
        identification: u16,
    },
    /// IPv6.
    V6 {
        /// From.
        source: Ipv6Addr,
        /// To.
        destination: Ipv6Addr,
        /// Flow label.
        flow_label: FlowLabel,
    },
}

impl Addresses {
    /// The addresses of two GIDs; `None` if only one of them is IPv4. The label is IPv6's.
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

    /// From.
    pub fn source(&self) -> Gid {
        match *self {
            Self::V4 { source, .. } => Gid::from_ipv4(source),
            Self::V6 { source, .. } => Gid(source.octets()),
        }
    }

    /// To.
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
    /// The way that a packet came, by its headers.
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

    /// Bytes from the front of the frame to the IP header.
    pub fn ethernet_len(&self) -> usize {
        self.ethernet().buffer_len()
    }

    /// Bytes from the front of the frame to the BTH.
    pub fn header_len(&self) -> usize {
        self.ethernet_len() + self.addresses.ip_len() + Udp::LEN
    }

    /// The same with an identification, which IPv6 has none of. Packets of one flow whose numbers
    /// count up can leave as one and be cut by a network card, which numbers them so (USO).
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
