//! The IP layer of a packet, of either version.

use crate::address::Gid;
use crate::ethernet::{EtherType, EthernetView};
use crate::field::be16;
use crate::format::{Format, Malformed};
use crate::ip::{PROTOCOL_UDP, TrafficClass};
use crate::ipv4::{Ipv4, Ipv4View};
use crate::ipv6::{FlowLabel, Ipv6, Ipv6View};
use crate::refusal::Refusal;

/// View of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpView<'a> {
    /// IPv4.
    V4(Ipv4View<'a>),
    /// IPv6.
    V6(Ipv6View<'a>),
}

impl<'a> IpView<'a> {
    /// Returns the UDP packet inside a frame.
    ///
    /// # Errors
    /// The frame is other traffic, or its IP header is not allowed in RoCEv2. The header of another protocol is not
    /// checked.
    pub fn of_udp(frame: EthernetView<'a>) -> Result<Self, Refusal> {
        let ip = match frame.ether_type() {
            EtherType::IPV4 => Ipv4View::new(frame.payload()).map(Self::V4),
            EtherType::IPV6 => Ipv6View::new(frame.payload()).map(Self::V6),
            _ => return Err(Refusal::OtherTraffic),
        }
        .map_err(refusal)?;
        if ip.protocol() != PROTOCOL_UDP {
            return Err(Refusal::OtherTraffic);
        }
        Ok(ip)
    }

    /// Returns the UDP destination port. Later fragments of a packet have none.
    pub fn udp_port(self) -> Option<u16> {
        let starts = match self {
            Self::V4(view) => view.fragment_offset() == 0,
            Self::V6(_) => true,
        };
        let port = self.payload().get(2..4).filter(|_| starts)?;
        Some(be16(port, 0))
    }

    /// Whether the header has a value and names a host as its sender.
    ///
    /// # Errors
    /// One of the reasons of the IP layer.
    pub fn check(self) -> Result<(), Refusal> {
        match self {
            Self::V4(view) => Ipv4::from_view(view).map(drop),
            Self::V6(view) => Ipv6::from_view(view).map(drop),
        }
        .map_err(refusal)?;
        if is_host(self.sgid()) {
            Ok(())
        } else {
            Err(Refusal::SpoofedSource)
        }
    }

    fn protocol(self) -> u8 {
        match self {
            Self::V4(view) => view.protocol(),
            Self::V6(view) => view.next_header(),
        }
    }

    /// Returns the header's bytes.
    pub fn header(self) -> &'a [u8] {
        match self {
            Self::V4(view) => view.header(),
            Self::V6(view) => view.header(),
        }
    }

    /// Returns the bytes after the header.
    pub fn payload(self) -> &'a [u8] {
        match self {
            Self::V4(view) => view.payload(),
            Self::V6(view) => view.payload(),
        }
    }

    /// Returns the source address.
    pub fn sgid(self) -> Gid {
        match self {
            Self::V4(view) => Gid::from_ipv4(view.source()),
            Self::V6(view) => Gid(view.source().octets()),
        }
    }

    /// Returns the destination address.
    pub fn dgid(self) -> Gid {
        match self {
            Self::V4(view) => Gid::from_ipv4(view.destination()),
            Self::V6(view) => Gid(view.destination().octets()),
        }
    }

    /// Returns DSCP and ECN.
    pub fn traffic_class(self) -> TrafficClass {
        match self {
            Self::V4(view) => view.traffic_class(),
            Self::V6(view) => view.traffic_class(),
        }
    }

    /// Returns the time to live or hop limit.
    pub fn hop_limit(self) -> u8 {
        match self {
            Self::V4(view) => view.ttl(),
            Self::V6(view) => view.hop_limit(),
        }
    }

    /// Returns the flow label; zero for IPv4.
    pub fn flow_label(self) -> FlowLabel {
        match self {
            Self::V4(_) => FlowLabel::default(),
            Self::V6(view) => view.flow_label(),
        }
    }
}

fn is_host(sgid: Gid) -> bool {
    let nobody = match sgid.to_ipv4() {
        Some(address) => address.is_unspecified() || address.is_broadcast(),
        None => sgid.is_zero(),
    };
    !nobody && !sgid.is_multicast()
}

fn refusal(malformed: Malformed) -> Refusal {
    match malformed {
        Malformed::Short => Refusal::Truncated,
        Malformed::Checksum => Refusal::IpChecksum,
        Malformed::Unsupported => Refusal::IpFeature,
        Malformed::Version | Malformed::Length | Malformed::Code => Refusal::IpHeader,
    }
}
