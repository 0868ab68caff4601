//! Attributes of a queue pair in shared memory (`struct pvrdma_qp_attr`, `struct pvrdma_ah_attr`).

use super::{U16, U32};

shared! {
    /// Attributes of MODIFY_QP and QUERY_QP, 160 bytes.
    #[allow(missing_docs, reason = "the names and meanings are `ib_qp_attr`'s")]
    pub struct QpAttributes {
        pub qp_state: U32,
        pub cur_qp_state: U32,
        pub path_mtu: U32,
        pub path_mig_state: U32,
        pub qkey: U32,
        pub rq_psn: U32,
        pub sq_psn: U32,
        pub dest_qp_num: U32,
        pub qp_access_flags: U32,
        pub pkey_index: U16,
        pub alt_pkey_index: U16,
        pub en_sqd_async_notify: u8,
        pub sq_draining: u8,
        pub max_rd_atomic: u8,
        pub max_dest_rd_atomic: u8,
        pub min_rnr_timer: u8,
        pub port_num: u8,
        pub timeout: u8,
        pub retry_cnt: u8,
        pub rnr_retry: u8,
        pub alt_port_num: u8,
        pub alt_timeout: u8,
        pub reserved: [u8; 5],
        pub cap: QpCapacity,
        pub ah_attr: AddressAttributes,
        pub alt_ah_attr: AddressAttributes,
    }

    /// Sizes of a queue pair (`struct pvrdma_qp_cap`).
    #[allow(missing_docs, reason = "the names and meanings are `ib_qp_cap`'s")]
    pub struct QpCapacity {
        pub max_send_wr: U32,
        pub max_recv_wr: U32,
        pub max_send_sge: U32,
        pub max_recv_sge: U32,
        pub max_inline_data: U32,
        pub reserved: U32,
    }

    /// A path, 40 bytes.
    #[allow(missing_docs, reason = "the names and meanings are `ib_ah_attr`'s")]
    pub struct AddressAttributes {
        pub dgid: [u8; 16],
        pub flow_label: U32,
        pub sgid_index: u8,
        pub hop_limit: u8,
        pub traffic_class: u8,
        pub reserved_0: u8,
        pub dlid: U16,
        pub vlan_id: U16,
        pub sl: u8,
        pub src_path_bits: u8,
        pub static_rate: u8,
        /// 1 when the GRH fields count, always on RoCE.
        pub ah_flags: u8,
        pub port_num: u8,
        pub dmac: [u8; 6],
        pub reserved_1: u8,
    }
}
