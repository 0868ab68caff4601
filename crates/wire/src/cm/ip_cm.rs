//! The header that `rdma_cm` puts in front of the private data of REQ and SIDR_REQ: the caller's IP address and port,
//! and the called address (annex A11, RDMA IP CM service).

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::bits::Bits;
use crate::cm::ServiceId;
use crate::field::{be16, get, put};
use crate::format::{Format, Malformed, fixed_format, view};

/// Namespace of a port: the protocol number inside an IP service ID (annex A11.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PortSpace {
    /// The namespace of connections.
    Tcp = 6,
    /// The namespace of datagrams.
    Udp = 17,
}

/// Upper bytes of the service IDs that the annex assigns.
const PREFIX: u64 = 0x0100_0000;

impl ServiceId {
    /// Returns the service that listens on a port.
    pub const fn of_port(space: PortSpace, port: u16) -> Self {
        Self(PREFIX | (space as u64) << 16 | port as u64)
    }

    /// Returns the port, if it is an IP service.
    pub const fn to_port(self) -> Option<(PortSpace, u16)> {
        let space = match self.0 ^ PREFIX {
            0x06_0000..=0x06_ffff => PortSpace::Tcp,
            0x11_0000..=0x11_ffff => PortSpace::Udp,
            _ => return None,
        };
        Some((space, self.0 as u16))
    }
}

view! {
    /// View of the header.
    IpCmView[36] {
        /// Major version, which is 0.
        major(b) -> Bits<4> { Bits::low(b[0] >> 4) }
        /// Minor version, which is 0.
        minor(b) -> Bits<4> { Bits::low(b[0]) }
        /// IP version.
        ip_version(b) -> Bits<4> { Bits::low(b[1] >> 4) }
        /// Caller's port.
        source_port(b) -> u16 { be16(b, 2) }
        /// Caller's address; an IPv4 address is in the last four bytes.
        source(b) -> [u8; 16] { get(b, 4) }
        /// Called address.
        destination(b) -> [u8; 16] { get(b, 20) }
    }
}

/// Value of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpCm {
    /// Caller's port.
    pub source_port: u16,
    /// Caller's and called address.
    pub addresses: IpPair,
}

/// Two addresses of one IP version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpPair {
    /// IPv4: source and destination.
    V4(Ipv4Addr, Ipv4Addr),
    /// IPv6: source and destination.
    V6(Ipv6Addr, Ipv6Addr),
}

fn ipv4(bytes: [u8; 16]) -> Ipv4Addr {
    Ipv4Addr::from(get(&bytes, 12))
}

impl Format for IpCm {
    fixed_format!(IpCmView, "IP CM");

    fn from_view(view: IpCmView<'_>) -> Result<Self, Malformed> {
        if view.major().get() != 0 {
            return Err(Malformed::Version);
        }
        let (source, destination) = (view.source(), view.destination());
        let addresses = match view.ip_version().get() {
            4 => IpPair::V4(ipv4(source), ipv4(destination)),
            6 => IpPair::V6(source.into(), destination.into()),
            _ => return Err(Malformed::Code),
        };
        Ok(Self {
            source_port: view.source_port(),
            addresses,
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 2, self.source_port.to_be_bytes());
        match self.addresses {
            IpPair::V4(source, destination) => {
                buffer[1] = 4 << 4;
                put(buffer, 16, source.octets());
                put(buffer, 32, destination.octets());
            }
            IpPair::V6(source, destination) => {
                buffer[1] = 6 << 4;
                put(buffer, 4, source.octets());
                put(buffer, 20, destination.octets());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_ports_are_told_from_others() {
        let service = ServiceId::of_port(PortSpace::Tcp, 7174);
        assert_eq!(service, ServiceId(0x0106_1c06));
        assert_eq!(service.to_port(), Some((PortSpace::Tcp, 7174)));
        let udp = ServiceId::of_port(PortSpace::Udp, 0xffff);
        assert_eq!(udp.to_port(), Some((PortSpace::Udp, 0xffff)));
        for other in [0, 0x0107_0000, 0x1_0106_0000, 0x0006_0001] {
            assert_eq!(ServiceId(other).to_port(), None);
        }
    }

    #[test]
    fn versions_are_checked() {
        let mut bytes = [0; 36];
        assert_eq!(IpCm::parse(&bytes), Err(Malformed::Code));
        bytes[1] = 0x40;
        assert!(IpCm::parse(&bytes).is_ok());
        bytes[0] = 0x10;
        assert_eq!(IpCm::parse(&bytes), Err(Malformed::Version));
    }
}
