//! Synchronous identifiers, made from `rdma_addrinfo` (rdma_create_ep(3)), and their channels.

use core::ffi::{c_int, c_uint};

use vrdma_provider::cm::{EventKind, Migrate};

use super::abi;
use super::addrinfo::PASSIVE;
use super::channel::Channel;
use super::event::{next, rdma_ack_cm_event};
use super::identifier::{Identifier, Kind, Template, rdma_destroy_id};
use super::qp::{create_plain, rdma_destroy_qp};
use super::resolve::{rdma_bind_addr, rdma_resolve_addr, rdma_resolve_route};
use super::session;
use super::srq::rdma_destroy_srq;
use crate::abi::{Pd, QpInitAttr};
use crate::errno::{self, Errno, Result};

/// Milliseconds that resolving an address or a route may take.
const PATIENCE: c_int = 2000;

/// Moves an identifier to another channel; without one it becomes synchronous.
pub(super) fn migrate(identifier: &Identifier, to: *mut abi::EventChannel) -> Result<()> {
    let was_synchronous = identifier.own.lock().synchronous;
    let synchronous = to.is_null();
    if was_synchronous && synchronous {
        return Err(Errno(libc::EINVAL));
    }
    let to = if synchronous { Channel::create()? } else { to };
    // SAFETY: the program's channel or the new one.
    let channel = unsafe { Channel::of(to)?.arrivals.number };
    let moved = session::call(&Migrate {
        id: identifier.number,
        channel,
    });
    if let Err(error) = moved {
        if synchronous {
            // SAFETY: just made.
            unsafe { Channel::destroy(to) };
        }
        return Err(error);
    }
    let public = identifier.public();
    let old = std::mem::replace(&mut public.channel, to);
    if was_synchronous {
        if !public.event.is_null() {
            // SAFETY: handed out to the identifier itself.
            unsafe { rdma_ack_cm_event(public.event) };
            public.event = core::ptr::null_mut();
        }
        // SAFETY: it was the identifier's own.
        unsafe { Channel::destroy(old) };
    }
    identifier.own.lock().synchronous = synchronous;
    Ok(())
}

/// `rdma_migrate_id`.
///
/// # Safety
/// `id` came from this library, and `channel` too or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_migrate_id(
    id: *mut abi::Id,
    channel: *mut abi::EventChannel,
) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(id) }.and_then(|one| migrate(one, channel)))
}

fn check(outcome: c_int) -> Result<()> {
    if outcome == 0 {
        Ok(())
    } else {
        Err(Errno::last())
    }
}

/// # Safety
/// `id` is new, and the others are as `rdma_create_ep` asks.
unsafe fn prepare(
    id: *mut abi::Id,
    info: &abi::AddrInfo,
    pd: *mut Pd,
    attr: *mut QpInitAttr,
) -> Result<()> {
    // SAFETY: as promised.
    unsafe {
        let identifier = Identifier::of(id)?;
        if info.ai_flags & PASSIVE != 0 {
            check(rdma_bind_addr(id, info.ai_src_addr))?;
            (*id).pd = if pd.is_null() { (*id).pd } else { pd };
            let template = attr.as_ref().map(|attr| Template(*attr));
            identifier.own.lock().template = template;
            return Ok(());
        }
        check(rdma_resolve_addr(
            id,
            info.ai_src_addr,
            info.ai_dst_addr,
            PATIENCE,
        ))?;
        check(rdma_resolve_route(id, PATIENCE))?;
        if let Some(attr) = attr.as_mut() {
            attr.qp_type = info.ai_qp_type as c_uint;
            create_plain(identifier, pd, attr)?;
        }
        if !info.ai_connect.is_null() {
            let data = info.ai_connect.cast::<u8>();
            let data = std::slice::from_raw_parts(data, info.ai_connect_len);
            identifier.own.lock().connect_data = data.to_vec();
        }
    }
    Ok(())
}

/// `rdma_create_ep`.
///
/// # Safety
/// `to` points to a place for a pointer, `info` to addresses, `pd` and `attr` are null or as
/// `rdma_create_qp` asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_ep(
    to: *mut *mut abi::Id,
    info: *mut abi::AddrInfo,
    pd: *mut Pd,
    attr: *mut QpInitAttr,
) -> c_int {
    // SAFETY: as the caller promises.
    let info = unsafe { &*info };
    let kind = Kind {
        space: info.ai_port_space as c_uint,
        qp_type: info.ai_qp_type as c_uint,
    };
    let none = core::ptr::null_mut();
    // SAFETY: no channel is given.
    let made = unsafe { Identifier::create(core::ptr::null_mut(), none, kind) };
    errno::minus_one(made.and_then(|made| {
        // SAFETY: just made; the rest as the caller promises.
        match unsafe { prepare(made.cast(), info, pd, attr) } {
            Ok(()) => {
                // SAFETY: as the caller promises.
                unsafe { to.write(made.cast()) };
                Ok(())
            }
            Err(error) => {
                // SAFETY: just made, and nobody has seen it.
                unsafe { rdma_destroy_ep(made.cast()) };
                Err(error)
            }
        }
    }))
}

/// `rdma_destroy_ep`.
///
/// # Safety
/// `id` came from this library and is given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_ep(id: *mut abi::Id) {
    // SAFETY: as the caller promises.
    unsafe {
        rdma_destroy_qp(id);
        rdma_destroy_srq(id);
        rdma_destroy_id(id);
    }
}

/// `rdma_get_request`: returns the next call for a synchronous identifier that listens.
///
/// # Safety
/// `listen` came from this library, and `to` points to a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_request(listen: *mut abi::Id, to: *mut *mut abi::Id) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(listen) }.and_then(|listener| {
        let called = request(listener)?;
        // SAFETY: as the caller promises.
        unsafe { to.write(called) };
        Ok(())
    }))
}

fn request(listener: &Identifier) -> Result<*mut abi::Id> {
    if !listener.own.lock().synchronous {
        return Err(Errno(libc::EINVAL));
    }
    let public = listener.public();
    // SAFETY: the identifier's own channel.
    let event = unsafe { next(public.channel)? };
    // SAFETY: just handed out.
    let (id, kind, status) = unsafe { ((*event).id, (*event).event, (*event).status) };
    if status != 0 || kind != EventKind::ConnectRequest as u32 {
        // SAFETY: as above.
        unsafe { rdma_ack_cm_event(event) };
        let error = if status < 0 { -status } else { libc::EINVAL };
        return Err(Errno(error));
    }
    let template = listener.own.lock().template;
    if let Some(Template(mut attr)) = template {
        attr.qp_type = public.qp_type;
        // SAFETY: a new identifier; the objects in the attributes are the program's.
        let made = unsafe {
            Identifier::of(id).and_then(|called| create_plain(called, public.pd, &mut attr))
        };
        if let Err(error) = made {
            // SAFETY: the event is counted at the listener; the identifier is nobody's yet.
            unsafe {
                rdma_ack_cm_event(event);
                rdma_destroy_id(id);
            }
            return Err(error);
        }
    }
    // SAFETY: the new identifier keeps the event, as the manual says.
    unsafe { (*id).event = event };
    Ok(id)
}
