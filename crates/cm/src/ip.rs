//! Services of IP ports: the caller's addresses and port stand in front of the user's private data (annex A11).

use vrdma_wire::cm::{IpCm, IpCmView, IpPair, PrivateData, ServiceId};
use vrdma_wire::{Format, Gid};

/// Bytes that a user may send with a call to an IP service.
pub const CONNECT_DATA: usize = 92 - IpCmView::LEN;

/// Bytes that a user may send with a question for an IP datagram service.
pub const RESOLVE_DATA: usize = 216 - IpCmView::LEN;

/// Port and addresses of a caller, and the address that it calls. The addresses are both IPv6 ones, or both mapped IPv4
/// ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpCaller {
    /// The caller's port.
    pub port: u16,
    /// The caller's address.
    pub source: Gid,
    /// The called address.
    pub destination: Gid,
}

impl IpCaller {
    /// Makes the private data of a call; `None` if the user's is longer than [`CONNECT_DATA`] or the addresses are of
    /// two kinds.
    pub fn connect_data(&self, user: &[u8]) -> Option<PrivateData<92>> {
        self.in_front(user)
    }

    /// Makes the private data of a question, as [`IpCaller::connect_data`] does, with [`RESOLVE_DATA`].
    pub fn resolve_data(&self, user: &[u8]) -> Option<PrivateData<216>> {
        self.in_front(user)
    }

    fn in_front<const N: usize>(&self, user: &[u8]) -> Option<PrivateData<N>> {
        let header = IpCm {
            source_port: self.port,
            addresses: pair(self.source, self.destination)?,
        };
        let mut bytes = [0; N];
        header.emit(&mut bytes);
        bytes
            .get_mut(IpCmView::LEN..IpCmView::LEN + user.len())?
            .copy_from_slice(user);
        PrivateData::new(&bytes)
    }

    fn of(header: IpCm) -> Self {
        let (source, destination) = match header.addresses {
            IpPair::V4(source, destination) => {
                (Gid::from_ipv4(source), Gid::from_ipv4(destination))
            }
            IpPair::V6(source, destination) => (Gid(source.octets()), Gid(destination.octets())),
        };
        Self {
            port: header.source_port,
            source,
            destination,
        }
    }
}

fn pair(source: Gid, destination: Gid) -> Option<IpPair> {
    match (source.to_ipv4(), destination.to_ipv4()) {
        (Some(source), Some(destination)) => Some(IpPair::V4(source, destination)),
        (None, None) => Some(IpPair::V6(source.to_ipv6(), destination.to_ipv6())),
        _ => None,
    }
}

/// Splits the header from the private data of a call to a service of IP; other services have none.
///
/// Returns `Err` if the header is wrong, or names another caller than the packet that brought it.
pub(crate) fn split<const N: usize>(
    service: ServiceId,
    from: Gid,
    data: &PrivateData<N>,
) -> Result<(Option<IpCaller>, PrivateData<N>), ()> {
    if service.to_port().is_none() {
        return Ok((None, *data));
    }
    let header = IpCm::parse(data.as_bytes()).map_err(drop)?;
    let caller = IpCaller::of(header);
    if caller.source != from {
        return Err(());
    }
    let user = PrivateData::new(&data.as_bytes()[IpCmView::LEN..]).ok_or(())?;
    Ok((Some(caller), user))
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use vrdma_wire::cm::PortSpace;

    use super::*;

    fn v4(last: u8) -> Gid {
        Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, last))
    }

    #[test]
    fn the_callers_address_travels_in_front_and_is_checked() {
        let caller = IpCaller {
            port: 7,
            source: v4(1),
            destination: v4(2),
        };
        let data = caller.connect_data(b"hello").unwrap();
        let service = ServiceId::of_port(PortSpace::Tcp, 9);
        let (seen, user) = split(service, v4(1), &data).unwrap();
        assert_eq!(seen, Some(caller));
        assert_eq!(&user.as_bytes()[..6], b"hello\0");
        assert_eq!(split(service, v4(3), &data), Err(()), "in another's name");
        assert_eq!(split(ServiceId(5), v4(3), &data), Ok((None, data)));
    }

    #[test]
    fn too_long_and_mixed_is_refused() {
        let mut caller = IpCaller {
            port: 7,
            source: v4(1),
            destination: v4(2),
        };
        assert!(caller.connect_data(&[1; CONNECT_DATA]).is_some());
        assert!(caller.connect_data(&[1; CONNECT_DATA + 1]).is_none());
        assert!(caller.resolve_data(&[1; RESOLVE_DATA]).is_some());
        assert!(caller.resolve_data(&[1; RESOLVE_DATA + 1]).is_none());
        caller.source = Gid([0xfe; 16]);
        assert!(caller.connect_data(&[]).is_none());
    }
}
