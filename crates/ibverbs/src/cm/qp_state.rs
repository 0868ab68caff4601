//! Queue pairs of identifiers, moved from state to state as the daemon says.

use core::ffi::{c_int, c_uint};

use vrdma_provider::cm::{InitQp, QpInit};

use super::abi;
use super::identifier::{Identifier, MOST};
use super::session;
use crate::abi::{AhAttr, Gid, GlobalRoute, Qp, QpAttr};
use crate::errno::{self, Errno, Result};
use crate::qp_state::ibv_modify_qp;

/// `enum ibv_qp_state`.
mod state {
    pub(super) const INIT: u32 = 1;
    pub(super) const RTR: u32 = 2;
    pub(super) const RTS: u32 = 3;
    pub(super) const ERR: u32 = 6;
}

/// `IBV_QP_STATE`.
const STATE: c_int = 1;

/// Returns the attributes for a state, and the mask of those that count.
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

/// Prepares a fresh queue pair: INIT for connections, all states up to RTS for datagrams.
pub(super) fn prepare(identifier: &Identifier, qp: *mut Qp) -> Result<()> {
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

/// Connects the identifier's queue pair to its peer's; does nothing without one.
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

/// Flushes the identifier's queue pair, if it has a connected one.
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

/// `rdma_init_qp_attr`: returns the attributes to set for a queue pair that is not the identifier's.
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
