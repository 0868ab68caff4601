//! Conversion between `struct sockaddr` and the daemon's form of addresses.

use vrdma_provider::cm::{Endpoint, family};

use crate::errno::{Errno, Result};

/// Converts an address of C to an endpoint.
///
/// # Safety
/// `address` is null or points to an address as long as its family's.
pub(crate) unsafe fn from_c(address: *const libc::sockaddr) -> Result<Endpoint> {
    // SAFETY: as promised, at least the family is there.
    let Some(head) = (unsafe { address.as_ref() }) else {
        return Ok(Endpoint::default());
    };
    match i32::from(head.sa_family) {
        libc::AF_INET => {
            // SAFETY: as promised, all of it is there; it need not be aligned.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let mut endpoint = Endpoint {
                family: family::INET,
                port: u16::from_be(v4.sin_port),
                ..Endpoint::default()
            };
            endpoint.address[..4].copy_from_slice(&v4.sin_addr.s_addr.to_ne_bytes());
            Ok(endpoint)
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Ok(Endpoint {
                family: family::INET6,
                port: u16::from_be(v6.sin6_port),
                scope: v6.sin6_scope_id,
                address: v6.sin6_addr.s6_addr,
            })
        }
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Converts an endpoint to an address of C, zero-padded; all zero for none.
pub(crate) fn to_c(endpoint: &Endpoint) -> libc::sockaddr_storage {
    // SAFETY: integers and arrays of them.
    let mut storage: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    match endpoint.family {
        family::INET => {
            let [a, b, c, d, ..] = endpoint.address;
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: endpoint.port.to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes([a, b, c, d]),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: a storage is longer than any address and aligned for it.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(v4) };
        }
        family::INET6 => {
            let v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: endpoint.port.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: endpoint.address,
                },
                sin6_scope_id: endpoint.scope,
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(v6) };
        }
        _ => {}
    }
    storage
}

/// Returns the length of the address that the storage holds.
pub(crate) fn length(storage: &libc::sockaddr_storage) -> libc::socklen_t {
    let bytes = match i32::from(storage.ss_family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => 0,
    };
    bytes as libc::socklen_t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_there_and_back() {
        let mut v4 = Endpoint {
            family: family::INET,
            port: 7174,
            ..Endpoint::default()
        };
        v4.address[..4].copy_from_slice(&[10, 0, 0, 1]);
        let v6 = Endpoint {
            family: family::INET6,
            port: 1,
            scope: 3,
            address: [7; 16],
        };
        for endpoint in [v4, v6, Endpoint::default()] {
            let storage = to_c(&endpoint);
            if endpoint.family != family::NONE {
                // SAFETY: a whole storage.
                let back = unsafe { from_c((&raw const storage).cast()) };
                assert_eq!(back, Ok(endpoint));
            }
        }
        // SAFETY: null is allowed.
        let none = unsafe { from_c(core::ptr::null()) };
        assert_eq!(none, Ok(Endpoint::default()));
        let mut storage = to_c(&Endpoint::default());
        // `AF_IB` (rdma/ib.h).
        storage.ss_family = 27;
        // SAFETY: a whole storage.
        let unknown = unsafe { from_c((&raw const storage).cast()) };
        assert_eq!(unknown, Err(Errno(libc::EAFNOSUPPORT)));
    }
}
