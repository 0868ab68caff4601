//! Addresses: binding, resolving, listening.

use core::ffi::c_int;

use vrdma_provider::cm::{Bind, Listen, ResolveAddress, ResolveRoute};

use super::abi;
use super::event::complete;
use super::identifier::Identifier;
use super::session;
use super::socket_address;
use crate::errno;

/// `rdma_bind_addr`.
///
/// # Safety
/// `id` came from this library, and `address` points to a socket address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_bind_addr(id: *mut abi::Id, address: *mut libc::sockaddr) -> c_int {
    // SAFETY: as the caller promises.
    let (found, local) = unsafe { (Identifier::of(id), socket_address::from_c(address)) };
    errno::minus_one(found.and_then(|identifier| {
        let bound = session::call(&Bind {
            id: identifier.number,
            local: local?,
        })?;
        identifier.follow(&bound.route)
    }))
}

/// `rdma_resolve_addr`.
///
/// # Safety
/// `id` came from this library, `from` is null or points to a socket address, `to` points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_addr(
    id: *mut abi::Id,
    from: *mut libc::sockaddr,
    to: *mut libc::sockaddr,
    timeout: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let (found, from, to) = unsafe {
        (
            Identifier::of(id),
            socket_address::from_c(from),
            socket_address::from_c(to),
        )
    };
    errno::minus_one(found.and_then(|identifier| {
        session::call(&ResolveAddress {
            id: identifier.number,
            local: from?,
            remote: to?,
            timeout: timeout.max(0) as u32,
            reserved: 0,
        })?;
        identifier.public().route.addr.dst_storage = socket_address::to_c(&to?);
        complete(identifier)
    }))
}

/// `rdma_resolve_route`.
///
/// # Safety
/// `id` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_route(id: *mut abi::Id, timeout: c_int) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(id) }.and_then(|identifier| {
        session::call(&ResolveRoute {
            id: identifier.number,
            timeout: timeout.max(0) as u32,
            reserved: 0,
        })?;
        complete(identifier)
    }))
}

/// `rdma_listen`.
///
/// # Safety
/// `id` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_listen(id: *mut abi::Id, backlog: c_int) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(id) }.and_then(|identifier| {
        let bound = session::call(&Listen {
            id: identifier.number,
            backlog: backlog.max(0) as u32,
            reserved: 0,
        })?;
        identifier.follow(&bound.route)
    }))
}

fn port(storage: &libc::sockaddr_storage) -> u16 {
    // SAFETY: a whole storage.
    let endpoint = unsafe { socket_address::from_c((&raw const *storage).cast()) };
    endpoint.map_or(0, |endpoint| endpoint.port.to_be())
}

/// `rdma_get_src_port`: in network order.
///
/// # Safety
/// `id` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_src_port(id: *mut abi::Id) -> u16 {
    // SAFETY: as the caller promises.
    unsafe { id.as_ref() }.map_or(0, |id| port(&id.route.addr.src_storage))
}

/// `rdma_get_dst_port`: in network order.
///
/// # Safety
/// `id` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_dst_port(id: *mut abi::Id) -> u16 {
    // SAFETY: as the caller promises.
    unsafe { id.as_ref() }.map_or(0, |id| port(&id.route.addr.dst_storage))
}
