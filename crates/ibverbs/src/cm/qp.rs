//! Queue pairs of identifiers: made, and moved from state to state as the daemon says.

use core::ffi::{c_int, c_uint, c_void};

use vrdma_provider::cm::{InitQp, QpInit};

use super::abi;
use super::identifier::{Identifier, MOST};
use super::session;
use crate::abi::{
    AhAttr, CompChannel, Cq, Gid, GlobalRoute, Pd, Qp, QpAttr, QpInitAttr, QpInitAttrEx,
    SrqInitAttr, SrqInitAttrEx,
};
use crate::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use crate::cq::{ibv_create_cq, ibv_destroy_cq};
use crate::errno::{self, Errno, Result};
use crate::qp::ibv_create_qp;
use crate::qp_ex::create_qp_ex;
use crate::qp_state::{ibv_destroy_qp, ibv_modify_qp};
use crate::srq::{create_srq_ex, ibv_create_srq, ibv_destroy_srq};

/// `enum ibv_qp_state`.
pub(super) mod state {
    pub(crate) const INIT: u32 = 1;
    pub(crate) const RTR: u32 = 2;
    pub(crate) const RTS: u32 = 3;
    pub(crate) const ERR: u32 = 6;
}

/// `IBV_QP_STATE`.
const STATE: c_int = 1;
/// `IBV_QP_INIT_ATTR_PD`.
const HAS_PD: u32 = 1;

/// Attributes for a state, and which of them count.
fn attributes(identifier: &Identifier, state: u32) -> Result<(QpAttr, c_int)> {
    let init = session::call(&InitQp {
        id: identifier.number,
        state,
        reserved: 0,
    })?;
    Ok((to_c(&init, state), init.mask as c_int))
}

fn to_c(init: &QpInit, state: u32) -> QpAttr {
    QpAttr {
        qp_state: state,
        path_mtu: init.mtu.into(),
        qkey: init.qkey,
        rq_psn: init.rq_psn,
        sq_psn: init.sq_psn,
        dest_qp_num: init.dest_qp_num,
        qp_access_flags: init.access,
        ah_attr: AhAttr {
            grh: GlobalRoute {
                dgid: Gid { raw: init.dgid },
                flow_label: init.flow_label,
                sgid_index: init.sgid_index,
                hop_limit: init.hop_limit,
                traffic_class: init.traffic_class,
            },
            is_global: 1,
            port_num: 1,
            ..AhAttr::default()
        },
        max_rd_atomic: init.max_rd_atomic,
        max_dest_rd_atomic: init.max_dest_rd_atomic,
        min_rnr_timer: init.min_rnr_timer,
        port_num: 1,
        timeout: init.timeout,
        retry_cnt: init.retry_count,
        rnr_retry: init.rnr_retry,
        ..QpAttr::default()
    }
}

fn modify(qp: *mut Qp, attributes: &mut QpAttr, mask: c_int) -> Result<()> {
    // SAFETY: the queue pair of an identifier, which is destroyed after it.
    match unsafe { ibv_modify_qp(qp, attributes, mask) } {
        0 => Ok(()),
        error => Err(Errno(error)),
    }
}

/// Prepares a fresh queue pair; one for datagrams goes all the way.
fn prepare(identifier: &Identifier, qp: *mut Qp) -> Result<()> {
    let states: &[u32] = if identifier.is_datagram() {
        &[state::INIT, state::RTR, state::RTS]
    } else {
        &[state::INIT]
    };
    for state in states {
        let (mut attributes, mask) = attributes(identifier, *state)?;
        modify(qp, &mut attributes, mask)?;
    }
    Ok(())
}

/// Lets the identifier's queue pair talk to its peer's; nothing to do without one.
pub(super) fn connect(identifier: &Identifier, resources: u8, depth: u8) -> Result<()> {
    let qp = identifier.public().qp;
    if qp.is_null() || identifier.is_datagram() {
        return Ok(());
    }
    let device = identifier.device()?;
    let (mut init, mask) = attributes(identifier, state::INIT)?;
    modify(qp, &mut init, mask)?;
    let (mut receive, mask) = attributes(identifier, state::RTR)?;
    if resources != MOST {
        receive.max_dest_rd_atomic = resources;
    }
    receive.max_dest_rd_atomic = receive.max_dest_rd_atomic.min(device.responder_resources);
    modify(qp, &mut receive, mask)?;
    let (mut send, mask) = attributes(identifier, state::RTS)?;
    if depth != MOST {
        send.max_rd_atomic = depth;
    }
    send.max_rd_atomic = send.max_rd_atomic.min(device.initiator_depth);
    modify(qp, &mut send, mask)
}

/// Flushes the identifier's queue pair, if it has one of a connection.
pub(super) fn fail(identifier: &Identifier) -> Result<()> {
    let qp = identifier.public().qp;
    if qp.is_null() || identifier.is_datagram() {
        return Ok(());
    }
    let mut attributes = QpAttr {
        qp_state: state::ERR,
        ..QpAttr::default()
    };
    modify(qp, &mut attributes, STATE)
}

/// A CQ with a channel for one side of a queue pair.
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

/// A queue pair by `make`, with what the program left out, ready for its identifier.
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

/// `rdma_init_qp_attr`: what a queue pair that is not the identifier's is to be set to.
///
/// # Safety
/// `id` came from this library; the others point to attributes with a state, and to a place for a
/// mask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut abi::Id,
    attr: *mut QpAttr,
    mask: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let (found, state): (_, c_uint) = unsafe { (Identifier::of(id), (*attr).qp_state) };
    errno::minus_one(found.and_then(|identifier| {
        let (found, which) = attributes(identifier, state)?;
        // SAFETY: as the caller promises.
        unsafe {
            attr.write(found);
            mask.write(which);
        }
        Ok(())
    }))
}
