//! Attributes of queue pairs, between C's structures and the daemon's.

use vrdma_provider::message::{QpAttributes, QpCapacity};

use crate::abi;
use crate::address;

/// `IBV_MIG_MIGRATED`: there is no alternate path.
const MIGRATED: u32 = 0;

pub(crate) fn capacity(cap: &abi::QpCap) -> QpCapacity {
    QpCapacity {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline: cap.max_inline_data,
    }
}

pub(crate) fn cap(capacity: &QpCapacity) -> abi::QpCap {
    abi::QpCap {
        max_send_wr: capacity.max_send_wr,
        max_recv_wr: capacity.max_recv_wr,
        max_send_sge: capacity.max_send_sge,
        max_recv_sge: capacity.max_recv_sge,
        max_inline_data: capacity.max_inline,
    }
}

pub(crate) fn to_daemon(attr: &abi::QpAttr) -> QpAttributes {
    QpAttributes {
        state: attr.qp_state,
        current_state: attr.cur_qp_state,
        path_mtu: attr.path_mtu,
        qkey: attr.qkey,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        dest_qp_num: attr.dest_qp_num,
        access: attr.qp_access_flags,
        address: address::vector(&attr.ah_attr),
        pkey_index: attr.pkey_index,
        en_sqd_async_notify: attr.en_sqd_async_notify,
        sq_draining: 0,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port: attr.port_num,
        timeout: attr.timeout,
        retry_count: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        reserved: 0,
    }
}

pub(crate) fn from_daemon(attributes: &QpAttributes, capacity: &QpCapacity) -> abi::QpAttr {
    abi::QpAttr {
        qp_state: attributes.state,
        cur_qp_state: attributes.state,
        path_mtu: attributes.path_mtu,
        path_mig_state: MIGRATED,
        qkey: attributes.qkey,
        rq_psn: attributes.rq_psn,
        sq_psn: attributes.sq_psn,
        dest_qp_num: attributes.dest_qp_num,
        qp_access_flags: attributes.access,
        cap: cap(capacity),
        ah_attr: address::attributes(&attributes.address),
        pkey_index: attributes.pkey_index,
        en_sqd_async_notify: attributes.en_sqd_async_notify,
        sq_draining: attributes.sq_draining,
        max_rd_atomic: attributes.max_rd_atomic,
        max_dest_rd_atomic: attributes.max_dest_rd_atomic,
        min_rnr_timer: attributes.min_rnr_timer,
        port_num: attributes.port,
        timeout: attributes.timeout,
        retry_cnt: attributes.retry_count,
        rnr_retry: attributes.rnr_retry,
        ..abi::QpAttr::default()
    }
}
