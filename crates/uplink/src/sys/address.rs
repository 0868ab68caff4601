//! Socket addresses as the kernel lays them out.

use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sa_family_t, sockaddr_in, sockaddr_in6, sockaddr_ll, sockaddr_storage, socklen_t};

/// Any socket address, and how many of its bytes are used.
#[derive(Clone, Copy)]
pub(super) struct RawAddress {
    storage: sockaddr_storage,
    len: socklen_t,
}

impl RawAddress {
    /// No address: for sockets that are bound to one.
    pub(super) fn none() -> Self {
        // SAFETY: sockaddr_storage is plain numbers, for which zero is a value.
        let storage = unsafe { zeroed() };
        Self { storage, len: 0 }
    }

    pub(super) fn new(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self::of(&v4(address)),
            SocketAddr::V6(address) => Self::of(&v6(address)),
        }
    }

    /// The address of every frame of one interface.
    pub(super) fn packets(index: i32) -> Self {
        // SAFETY: sockaddr_ll is plain numbers, for which zero is a value.
        let mut address: sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
        Self::of(&address)
    }

    fn of<T: Copy>(address: &T) -> Self {
        const { assert!(size_of::<T>() <= size_of::<sockaddr_storage>()) };
        let mut raw = Self::none();
        // SAFETY: both are plain numbers, the storage is at least as large and is aligned for every
        // kind of socket address.
        unsafe { (&raw mut raw.storage).cast::<T>().write(*address) };
        raw.len = size_of::<T>() as socklen_t;
        raw
    }

    pub(super) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(super) fn len(&self) -> socklen_t {
        self.len
    }
}

fn v4(address: SocketAddrV4) -> sockaddr_in {
    // SAFETY: sockaddr_in is plain numbers, for which zero is a value.
    let mut raw: sockaddr_in = unsafe { zeroed() };
    raw.sin_family = libc::AF_INET as sa_family_t;
    raw.sin_port = address.port().to_be();
    raw.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
    raw
}

fn v6(address: SocketAddrV6) -> sockaddr_in6 {
    // SAFETY: sockaddr_in6 is plain numbers, for which zero is a value.
    let mut raw: sockaddr_in6 = unsafe { zeroed() };
    raw.sin6_family = libc::AF_INET6 as sa_family_t;
    raw.sin6_port = address.port().to_be();
    raw.sin6_addr.s6_addr = address.ip().octets();
    raw.sin6_scope_id = address.scope_id();
    raw
}

/// Returns the Internet address that the kernel wrote, if it is one.
pub(super) fn internet(storage: &sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which structure the storage holds; it is large and aligned
            // enough, and any bytes are a value of it.
            let raw = unsafe { (&raw const *storage).cast::<sockaddr_in>().read() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::from((ip, u16::from_be(raw.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { (&raw const *storage).cast::<sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            let port = u16::from_be(raw.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, raw.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Whether a packet socket received a frame that this host sends.
pub(super) fn is_outgoing(storage: &sockaddr_storage) -> bool {
    if i32::from(storage.ss_family) != libc::AF_PACKET {
        return false;
    }
    // SAFETY: the family says which structure the storage holds; it is large and aligned enough, and
    // any bytes are a value of it.
    let raw = unsafe { (&raw const *storage).cast::<sockaddr_ll>().read() };
    raw.sll_pkttype == libc::PACKET_OUTGOING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for text in ["192.0.2.1:4789", "[fd00::1]:4789", "[fe80::1%3]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(internet(&RawAddress::new(address).storage), Some(address));
        }
        assert_eq!(internet(&RawAddress::packets(1).storage), None);
        assert!(!is_outgoing(&RawAddress::packets(1).storage));
    }
}
