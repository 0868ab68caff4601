//! Queue pairs of identifiers, with the CQs that a program leaves out.

use core::ffi::{c_int, c_void};

use super::abi;
use super::identifier::Identifier;
use super::qp_state::prepare;
use crate::abi::{CompChannel, Cq, Pd, Qp, QpInitAttr, QpInitAttrEx};
use crate::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use crate::cq::{ibv_create_cq, ibv_destroy_cq};
use crate::errno::{self, Errno, Result};
use crate::qp::ibv_create_qp;
use crate::qp_ex::create_qp_ex;
use crate::qp_state::ibv_destroy_qp;

/// `IBV_QP_INIT_ATTR_PD`.
const HAS_PD: u32 = 1;

/// Makes a CQ with a channel for one side of a queue pair.
fn create_cq(identifier: &Identifier, entries: u32) -> Result<(*mut CompChannel, *mut Cq)> {
    let context = identifier.public().verbs;
    let cookie: *mut c_void = identifier.pointer().cast();
    // SAFETY: the context of an identifier is open.
    unsafe {
        let channel = ibv_create_comp_channel(context);
        if channel.is_null() {
            return Err(Errno::last());
        }
        let cq = ibv_create_cq(context, entries as c_int, cookie, channel, 0);
        if cq.is_null() {
            let error = Errno::last();
            ibv_destroy_comp_channel(channel);
            return Err(error);
        }
        Ok((channel, cq))
    }
}

/// Makes the CQs that the program left out.
fn create_cqs(identifier: &Identifier, attr: &mut QpInitAttr) -> Result<()> {
    let public = identifier.public();
    if attr.recv_cq.is_null() {
        if public.recv_cq.is_null() {
            let entries = attr.cap.max_recv_wr.max(1);
            (public.recv_cq_channel, public.recv_cq) = create_cq(identifier, entries)?;
        }
        attr.recv_cq = public.recv_cq;
    }
    if attr.send_cq.is_null() {
        if public.send_cq.is_null() {
            let entries = attr.cap.max_send_wr.max(1);
            (public.send_cq_channel, public.send_cq) = create_cq(identifier, entries)?;
        }
        attr.send_cq = public.send_cq;
    }
    Ok(())
}

fn destroy_cqs(public: &mut abi::Id) {
    let sides = [
        (&mut public.recv_cq, &mut public.recv_cq_channel),
        (&mut public.send_cq, &mut public.send_cq_channel),
    ];
    for (cq, channel) in sides {
        // SAFETY: made by `create_cqs`, and no queue pair uses them any more.
        unsafe {
            if !cq.is_null() {
                ibv_destroy_cq(*cq);
            }
            if !channel.is_null() {
                ibv_destroy_comp_channel(*channel);
            }
        }
        (*cq, *channel) = (core::ptr::null_mut(), core::ptr::null_mut());
    }
}

/// Makes a queue pair by `make`, with the CQs that the program left out, ready for its identifier.
fn create(
    identifier: &Identifier,
    pd: *mut Pd,
    attr: &mut QpInitAttr,
    make: impl FnOnce(*mut Pd, &mut QpInitAttr) -> *mut Qp,
) -> Result<()> {
    let public = identifier.public();
    let pd = if pd.is_null() { public.pd } else { pd };
    if pd.is_null() || !public.qp.is_null() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the program's domain or the device's own.
    if unsafe { (*pd).context } != public.verbs {
        return Err(Errno(libc::EINVAL));
    }
    if attr.srq.is_null() {
        attr.srq = public.srq;
    }
    create_cqs(identifier, attr)?;
    let qp = make(pd, attr);
    if qp.is_null() {
        let error = Errno::last();
        destroy_cqs(public);
        return Err(error);
    }
    if let Err(error) = prepare(identifier, qp) {
        // SAFETY: just made.
        unsafe { ibv_destroy_qp(qp) };
        destroy_cqs(public);
        return Err(error);
    }
    (public.pd, public.qp) = (pd, qp);
    Ok(())
}

/// # Safety
/// `pd` is null or of this library, and so is everything in `attr`.
pub(super) unsafe fn create_plain(
    identifier: &Identifier,
    pd: *mut Pd,
    attr: &mut QpInitAttr,
) -> Result<()> {
    create(identifier, pd, attr, |pd, attr| {
        // SAFETY: as promised.
        unsafe { ibv_create_qp(pd, attr) }
    })
}

/// `rdma_create_qp`.
///
/// # Safety
/// `id` and `pd`, which may be null, came from this library; `attr` points to attributes with objects
/// of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_qp(
    id: *mut abi::Id,
    pd: *mut Pd,
    attr: *mut QpInitAttr,
) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe {
        Identifier::of(id).and_then(|identifier| create_plain(identifier, pd, &mut *attr))
    })
}

/// `rdma_create_qp_ex`.
///
/// # Safety
/// As [`rdma_create_qp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_qp_ex(id: *mut abi::Id, attr: *mut QpInitAttrEx) -> c_int {
    // SAFETY: as the caller promises.
    let (found, extended) = unsafe { (Identifier::of(id), &mut *attr) };
    errno::minus_one(found.and_then(|identifier| {
        let pd = if extended.comp_mask & HAS_PD != 0 {
            extended.pd
        } else {
            core::ptr::null_mut()
        };
        let mut plain = QpInitAttr {
            qp_context: extended.qp_context,
            send_cq: extended.send_cq,
            recv_cq: extended.recv_cq,
            srq: extended.srq,
            cap: extended.cap,
            qp_type: extended.qp_type,
            sq_sig_all: extended.sq_sig_all,
        };
        let context = identifier.public().verbs;
        create(identifier, pd, &mut plain, |pd, plain| {
            (extended.send_cq, extended.recv_cq) = (plain.send_cq, plain.recv_cq);
            (extended.srq, extended.pd) = (plain.srq, pd);
            extended.comp_mask |= HAS_PD;
            // SAFETY: as the caller promises; the context is open.
            unsafe { create_qp_ex(context, extended) }
        })
    }))
}

/// `rdma_destroy_qp`.
///
/// # Safety
/// `id` came from this library and has a queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_qp(id: *mut abi::Id) {
    // SAFETY: as the caller promises.
    let Ok(identifier) = (unsafe { Identifier::of(id) }) else {
        return;
    };
    let public = identifier.public();
    if !public.qp.is_null() {
        // SAFETY: the identifier's own.
        unsafe { ibv_destroy_qp(public.qp) };
        public.qp = core::ptr::null_mut();
    }
    destroy_cqs(public);
}
