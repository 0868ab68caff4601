//! The header in front of a datagram: the address that its sender's socket is bound to.
//!
//! ```text
//!   0 IP version, 4 or 6 | 1 bytes of the header, 8 or 24 | 2..4 port | 4..8 IPv4 address
//!                                                                     | 4..8 flow, 8..24 IPv6 address
//! ```

use vrdma_provider::cm::{Endpoint, family};

/// Bytes of the longest header.
pub(super) const HEADER_MAX: usize = 24;
/// Bytes of a header with an IPv4 address.
const SHORT: usize = 8;

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The address and port of a socket. An IPv4 address is as in a GID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::cm::sockets) struct Address {
    pub(in crate::cm::sockets) gid: [u8; 16],
    pub(in crate::cm::sockets) port: u16,
}

impl Address {
    /// Converts an endpoint; `None` if it has no address.
    pub(in crate::cm::sockets) fn of(endpoint: &Endpoint) -> Option<Self> {
        let port = endpoint.port;
        match endpoint.family {
            family::INET => {
                let [a, b, c, d, ..] = endpoint.address;
                let gid = mapped([a, b, c, d]);
                Some(Self { gid, port })
            }
            family::INET6 => Some(Self {
                gid: endpoint.address,
                port,
            }),
            _ => None,
        }
    }

    pub(in crate::cm::sockets) fn is_v4(&self) -> bool {
        self.gid[..12] == MAPPED
    }

    /// Returns the address as sockets of a family name it; `None` if they cannot.
    pub(in crate::cm::sockets) fn endpoint(&self, of: u16) -> Option<Endpoint> {
        let mut endpoint = Endpoint {
            family: of,
            port: self.port,
            scope: 0,
            address: self.gid,
        };
        if of == family::INET {
            if !self.is_v4() {
                return None;
            }
            endpoint.address = [0; 16];
            endpoint.address[..4].copy_from_slice(&self.gid[12..]);
        }
        Some(endpoint)
    }

    /// Returns the length of the header for this address.
    pub(super) fn header_bytes(&self) -> usize {
        if self.is_v4() { SHORT } else { HEADER_MAX }
    }

    /// Returns the header; its first [`Address::header_bytes`] count.
    pub(super) fn header(&self) -> [u8; HEADER_MAX] {
        let mut bytes = [0; HEADER_MAX];
        bytes[1] = self.header_bytes() as u8;
        bytes[2..4].copy_from_slice(&self.port.to_be_bytes());
        if self.is_v4() {
            bytes[0] = 4;
            bytes[4..8].copy_from_slice(&self.gid[12..]);
        } else {
            bytes[0] = 6;
            bytes[8..].copy_from_slice(&self.gid);
        }
        bytes
    }

    /// Returns the sender's address, from the first bytes of a datagram of `bytes` bytes; `None` if it has no header.
    pub(super) fn of_header(first: &[u8; HEADER_MAX], bytes: usize) -> Option<Self> {
        let port = u16::from_be_bytes([first[2], first[3]]);
        let length = usize::from(first[1]);
        if bytes < SHORT || bytes < length {
            return None;
        }
        let gid = match (first[0], length) {
            (4, SHORT) => mapped([first[4], first[5], first[6], first[7]]),
            (6, HEADER_MAX) => *first.last_chunk()?,
            _ => return None,
        };
        Some(Self { gid, port })
    }
}

fn mapped([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Address = Address {
        gid: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3],
        port: 0x1c06,
    };

    #[test]
    fn headers_are_as_other_rsockets_write_them() {
        let bytes = V4.header();
        assert_eq!(bytes[..V4.header_bytes()], [4, 8, 0x1c, 6, 10, 1, 2, 3]);
        assert_eq!(Address::of_header(&bytes, 8), Some(V4));
        let v6 = Address { gid: [7; 16], ..V4 };
        let bytes = v6.header();
        assert_eq!(bytes[..8], [6, 24, 0x1c, 6, 0, 0, 0, 0]);
        assert_eq!(Address::of_header(&bytes, 24), Some(v6));
    }

    #[test]
    fn strangers_headers_are_none() {
        let good = V4.header();
        for (at, value) in [(0, 5), (0, 6), (1, 7), (1, 9), (1, 24), (1, 255)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Address::of_header(&bad, 4096), None, "{at} {value}");
        }
        assert_eq!(Address::of_header(&good, 7), None);
        let v6 = Address { gid: [7; 16], ..V4 };
        assert_eq!(Address::of_header(&v6.header(), 23), None);
    }

    #[test]
    fn sockets_of_both_families_call_an_ipv4_address() {
        let v4 = V4.endpoint(family::INET).unwrap();
        assert_eq!(v4.address[..4], [10, 1, 2, 3]);
        let v6 = V4.endpoint(family::INET6).unwrap();
        assert_eq!([Address::of(&v4), Address::of(&v6)], [Some(V4); 2]);
        let only_v6 = Address { gid: [7; 16], ..V4 };
        assert_eq!(only_v6.endpoint(family::INET), None);
        assert_eq!(Address::of(&Endpoint::default()), None);
    }
}
