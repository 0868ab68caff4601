//! Shared receive queues of identifiers.

use core::ffi::c_int;

use super::abi;
use super::identifier::Identifier;
use crate::abi::{Pd, SrqInitAttr, SrqInitAttrEx};
use crate::errno::{self, Errno};
use crate::srq::{create_srq_ex, ibv_create_srq, ibv_destroy_srq};

/// `rdma_create_srq`.
///
/// # Safety
/// `id` and `pd`, which may be null, came from this library; `attr` points to attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_srq(
    id: *mut abi::Id,
    pd: *mut Pd,
    attr: *mut SrqInitAttr,
) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(id) }.and_then(|identifier| {
        let public = identifier.public();
        let pd = if pd.is_null() { public.pd } else { pd };
        if pd.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: as the caller promises.
        let srq = unsafe { ibv_create_srq(pd, attr) };
        if srq.is_null() {
            return Err(Errno::last());
        }
        (public.pd, public.srq) = (pd, srq);
        Ok(())
    }))
}

/// `rdma_create_srq_ex`.
///
/// # Safety
/// As [`rdma_create_srq`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_srq_ex(id: *mut abi::Id, attr: *mut SrqInitAttrEx) -> c_int {
    /// `IBV_SRQ_INIT_ATTR_PD`.
    const HAS_PD: u32 = 1 << 1;
    // SAFETY: as the caller promises.
    let (found, attr) = unsafe { (Identifier::of(id), &mut *attr) };
    errno::minus_one(found.and_then(|identifier| {
        let public = identifier.public();
        if attr.comp_mask & HAS_PD == 0 {
            (attr.pd, attr.comp_mask) = (public.pd, attr.comp_mask | HAS_PD);
        }
        // SAFETY: as the caller promises; the context is open once there is a domain.
        let srq = unsafe { create_srq_ex(public.verbs, attr) };
        if srq.is_null() {
            return Err(Errno::last());
        }
        (public.pd, public.srq) = (attr.pd, srq);
        Ok(())
    }))
}

/// `rdma_destroy_srq`.
///
/// # Safety
/// `id` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_srq(id: *mut abi::Id) {
    // SAFETY: as the caller promises.
    if let Ok(identifier) = unsafe { Identifier::of(id) } {
        let public = identifier.public();
        if !public.srq.is_null() {
            // SAFETY: the identifier's own.
            unsafe { ibv_destroy_srq(public.srq) };
            public.srq = core::ptr::null_mut();
        }
    }
}
