//! Bodies of responses: the bytes after the 16-byte header (`struct pvrdma_cmd_*_resp`).

use super::{U16, U32};

shared! {
    /// QUERY_PORT (`struct pvrdma_port_attr`).
    #[allow(missing_docs, reason = "the names and meanings are `ib_port_attr`'s")]
    pub struct PortAttributes {
        pub state: U32,
        pub max_mtu: U32,
        pub active_mtu: U32,
        pub gid_tbl_len: U32,
        pub port_cap_flags: U32,
        pub max_msg_sz: U32,
        pub bad_pkey_cntr: U32,
        pub qkey_viol_cntr: U32,
        pub pkey_tbl_len: U16,
        pub lid: U16,
        pub sm_lid: U16,
        pub lmc: u8,
        pub max_vl_num: u8,
        pub sm_sl: u8,
        pub subnet_timeout: u8,
        pub init_type_reply: u8,
        pub active_width: u8,
        pub active_speed: u8,
        pub phys_state: u8,
        pub reserved: [u8; 2],
    }

    /// QUERY_PKEY.
    pub struct Pkey {
        /// The key.
        pub pkey: U16,
        /// Unused.
        pub reserved: [u8; 6],
    }

    /// CREATE_UC, CREATE_PD, CREATE_SRQ; and DESTROY_QP, where the field is a number of events, always 0.
    pub struct Created {
        /// Handle of the new object.
        pub handle: U32,
        /// Unused.
        pub reserved: U32,
    }

    /// CREATE_MR.
    pub struct CreatedMr {
        /// Handle of the new region.
        pub mr_handle: U32,
        /// Local key.
        pub lkey: U32,
        /// Remote key.
        pub rkey: U32,
        /// Unused.
        pub reserved: U32,
    }

    /// CREATE_CQ.
    pub struct CreatedCq {
        /// Handle of the new CQ.
        pub cq_handle: U32,
        /// Number of entries, as requested.
        pub cqe: U32,
    }

    /// Geometry of a queue pair, as the guest asked for it.
    pub struct QpSizes {
        /// Number of send work requests.
        pub max_send_wr: U32,
        /// Number of receive work requests.
        pub max_recv_wr: U32,
        /// Entries of a send gather list.
        pub max_send_sge: U32,
        /// Entries of a receive scatter list.
        pub max_recv_sge: U32,
        /// Always 0.
        pub max_inline_data: U32,
    }

    /// CREATE_QP for drivers before version 20: number and handle are the same.
    pub struct CreatedQpV1 {
        /// Number and handle.
        pub qpn: U32,
        /// Sizes, as requested.
        pub sizes: QpSizes,
    }

    /// CREATE_QP from version 20 on.
    pub struct CreatedQp {
        /// QP number on the wire.
        pub qpn: U32,
        /// Handle for doorbells, completions and commands.
        pub qp_handle: U32,
        /// Sizes, as requested.
        pub sizes: QpSizes,
        /// Padding for alignment.
        pub reserved: U32,
    }
}
