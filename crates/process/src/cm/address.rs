//! IP addresses as the library gives them, and the GIDs for them.

use std::net::{Ipv4Addr, Ipv6Addr};

use vrdma_provider::cm::{Endpoint, family};
use vrdma_wire::Gid;

/// The kinds of an endpoint's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AddressKind {
    /// All addresses, or none in particular.
    Any,
    /// The same adapter.
    Loopback,
    /// A multicast group.
    Multicast(Gid),
    /// The address of one adapter port.
    At(Gid),
}

/// Returns the kind of an address; `None` if its family is not known.
pub(super) fn place(endpoint: &Endpoint) -> Option<AddressKind> {
    Some(match endpoint.family {
        family::INET => {
            let [a, b, c, d, ..] = endpoint.address;
            v4(Ipv4Addr::new(a, b, c, d))
        }
        family::INET6 => {
            let address = Ipv6Addr::from(endpoint.address);
            match address.to_ipv4_mapped() {
                Some(mapped) => v4(mapped),
                None => v6(address),
            }
        }
        _ => return None,
    })
}

fn v4(address: Ipv4Addr) -> AddressKind {
    if address.is_unspecified() {
        AddressKind::Any
    } else if address.is_loopback() {
        AddressKind::Loopback
    } else if address.is_multicast() {
        AddressKind::Multicast(Gid::from_ipv4(address))
    } else {
        AddressKind::At(Gid::from_ipv4(address))
    }
}

fn v6(address: Ipv6Addr) -> AddressKind {
    let gid = Gid(address.octets());
    if address.is_unspecified() {
        AddressKind::Any
    } else if address.is_loopback() {
        AddressKind::Loopback
    } else if address.is_multicast() {
        AddressKind::Multicast(gid)
    } else {
        AddressKind::At(gid)
    }
}

/// Makes the endpoint of a GID: IPv4 if the GID is a mapped address.
pub(super) fn endpoint(gid: Gid, port: u16) -> Endpoint {
    let mut endpoint = Endpoint {
        family: family::INET6,
        port,
        scope: 0,
        address: gid.0,
    };
    if let Some(address) = gid.to_ipv4() {
        endpoint.family = family::INET;
        endpoint.address = [0; 16];
        endpoint.address[..4].copy_from_slice(&address.octets());
    }
    endpoint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_their_places() {
        let v4 = |text: &str| {
            let address: Ipv4Addr = text.parse().unwrap();
            endpoint(Gid::from_ipv4(address), 1)
        };
        assert_eq!(place(&v4("0.0.0.0")), Some(AddressKind::Any));
        assert_eq!(place(&v4("127.3.2.1")), Some(AddressKind::Loopback));
        assert!(matches!(
            place(&v4("224.0.0.9")),
            Some(AddressKind::Multicast(_))
        ));
        let ten = Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(place(&v4("10.0.0.1")), Some(AddressKind::At(ten)));
        assert_eq!(place(&Endpoint::default()), None);
        let loopback = Endpoint {
            family: family::INET6,
            address: Ipv6Addr::LOCALHOST.octets(),
            ..Endpoint::default()
        };
        assert_eq!(place(&loopback), Some(AddressKind::Loopback));
    }
}
