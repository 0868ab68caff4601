//! Multicast groups of identifiers.

use core::ffi::{c_int, c_void};

use vrdma_provider::cm::{self as messages, Endpoint, Join, Leave};

use super::abi;
use super::event::complete;
use super::identifier::Identifier;
use super::session;
use super::socket_address;
use crate::abi::Gid;
use crate::errno::{self, Errno, Result};
use crate::multicast::{ibv_attach_mcast, ibv_detach_mcast};

/// `RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS`.
const KNOWN_ATTRIBUTES: u32 = 3;
/// `RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER`.
const SEND_ONLY: u32 = 1;

/// A group that an identifier has joined.
pub(super) struct Membership {
    group: u64,
    address: Endpoint,
    context: *mut c_void,
    flags: u32,
    /// The group's GID, once the queue pair is attached.
    attached: Option<[u8; 16]>,
}

// SAFETY: the context is a value of the program that is only handed back.
unsafe impl Send for Membership {}

fn join(
    identifier: &Identifier,
    address: Endpoint,
    flags: u32,
    context: *mut c_void,
) -> Result<()> {
    let reply = session::call(&Join {
        id: identifier.number,
        group: address,
        flags,
        reserved: 0,
    })?;
    identifier.own.lock().groups.push(Membership {
        group: reply.group,
        address,
        context,
        flags,
        attached: None,
    });
    complete(identifier)
}

/// Attaches the queue pair to the group that an event tells of.
pub(super) fn joined(identifier: &Identifier, event: &messages::Event) -> Result<()> {
    let qp = identifier.public().qp;
    let mut own = identifier.own.lock();
    let found = own.groups.iter_mut().find(|one| one.group == event.group);
    let Some(membership) = found else {
        return Ok(());
    };
    if qp.is_null() || membership.flags == SEND_ONLY {
        return Ok(());
    }
    let gid = Gid {
        raw: event.peer.dgid,
    };
    // SAFETY: the identifier's queue pair, and a GID.
    match unsafe { ibv_attach_mcast(qp, &gid, 0) } {
        0 => {
            membership.attached = Some(gid.raw);
            Ok(())
        }
        error => Err(Errno(error)),
    }
}

/// Returns the context that the program gave when it joined.
pub(super) fn context(identifier: &Identifier, group: u64) -> *const c_void {
    let own = identifier.own.lock();
    let found = own.groups.iter().find(|one| one.group == group);
    found.map_or(core::ptr::null(), |one| one.context.cast_const())
}

/// `rdma_join_multicast`.
///
/// # Safety
/// `id` came from this library, and `address` points to a socket address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_join_multicast(
    id: *mut abi::Id,
    address: *mut libc::sockaddr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    let (found, address) = unsafe { (Identifier::of(id), socket_address::from_c(address)) };
    errno::minus_one(found.and_then(|identifier| join(identifier, address?, 0, context)))
}

/// `rdma_join_multicast_ex`.
///
/// # Safety
/// `id` came from this library, and `attr` points to attributes with a socket address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_join_multicast_ex(
    id: *mut abi::Id,
    attr: *mut abi::JoinAttr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    let (found, attr) = unsafe { (Identifier::of(id), &*attr) };
    errno::minus_one(found.and_then(|identifier| {
        if attr.comp_mask != KNOWN_ATTRIBUTES || attr.join_flags > SEND_ONLY {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: as the caller promises.
        let address = unsafe { socket_address::from_c(attr.addr)? };
        join(identifier, address, attr.join_flags, context)
    }))
}

/// `rdma_leave_multicast`.
///
/// # Safety
/// `id` came from this library, and `address` points to a socket address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_leave_multicast(
    id: *mut abi::Id,
    address: *mut libc::sockaddr,
) -> c_int {
    // SAFETY: as the caller promises.
    let (found, address) = unsafe { (Identifier::of(id), socket_address::from_c(address)) };
    errno::minus_one(found.and_then(|identifier| {
        let address = address?;
        let mut own = identifier.own.lock();
        let at = own.groups.iter().position(|one| one.address == address);
        let membership = own.groups.remove(at.ok_or(Errno(libc::EADDRNOTAVAIL))?);
        drop(own);
        let qp = identifier.public().qp;
        if let (Some(raw), false) = (membership.attached, qp.is_null()) {
            // SAFETY: the identifier's queue pair, and a GID. That of another one was not attached.
            unsafe { ibv_detach_mcast(qp, &Gid { raw }, 0) };
        }
        session::call(&Leave {
            group: membership.group,
        })
        .map(|_| ())
    }))
}
