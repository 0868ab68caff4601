//! The device shared region: where the driver put the slots and rings, and what the device can do
//! (`struct pvrdma_device_shared_region`, `struct pvrdma_device_caps`).

use zerocopy::big_endian;

use super::{U16, U32, U64};

shared! {
    /// Location of one device ring's pages (`struct pvrdma_ring_page_info`).
    pub struct RingPages {
        /// Number of pages, with the state page.
        pub num_pages: U32,
        /// Padding for alignment.
        pub reserved: U32,
        /// Bus address of the page directory.
        pub pdir_dma: U64,
    }

    /// The whole region, 280 bytes. The guest writes everything but the capabilities.
    pub struct SharedRegion {
        /// Protocol version of the driver.
        pub driver_version: U32,
        /// Padding for alignment.
        pub reserved_0: U32,
        /// Word size, type and version of the guest's system.
        pub guest_os: U32,
        /// Padding for alignment.
        pub reserved_1: U32,
        /// Bus address of the command slot.
        pub cmd_slot_dma: U64,
        /// Bus address of the response slot.
        pub resp_slot_dma: U64,
        /// Ring of asynchronous events.
        pub async_ring: RingPages,
        /// Ring of completion notifications.
        pub cq_ring: RingPages,
        /// Page frame of UAR page 0: 32 bits before version 19.
        pub uar_pfn: U64,
        /// Capabilities of the device, which the device writes.
        pub caps: Capabilities,
    }
}

impl SharedRegion {
    /// Bytes that the guest writes, before the capabilities.
    pub const GUEST_BYTES: usize = core::mem::offset_of!(Self, caps);
}

shared! {
    /// Device capabilities, 208 bytes.
    #[allow(missing_docs, reason = "the names and meanings are `ib_device_attr`'s")]
    pub struct Capabilities {
        pub fw_ver: U64,
        pub node_guid: big_endian::U64,
        pub sys_image_guid: big_endian::U64,
        pub max_mr_size: U64,
        pub page_size_cap: U64,
        pub atomic_arg_sizes: U64,
        pub ex_comp_mask: U32,
        pub device_cap_flags2: U32,
        pub max_fa_bit_boundary: U32,
        pub log_max_atomic_inline_arg: U32,
        pub vendor_id: U32,
        pub vendor_part_id: U32,
        pub hw_ver: U32,
        pub max_qp: U32,
        pub max_qp_wr: U32,
        pub device_cap_flags: U32,
        pub max_sge: U32,
        pub max_sge_rd: U32,
        pub max_cq: U32,
        pub max_cqe: U32,
        pub max_mr: U32,
        pub max_pd: U32,
        pub max_qp_rd_atom: U32,
        pub max_ee_rd_atom: U32,
        pub max_res_rd_atom: U32,
        pub max_qp_init_rd_atom: U32,
        pub max_ee_init_rd_atom: U32,
        pub max_ee: U32,
        pub max_rdd: U32,
        pub max_mw: U32,
        pub max_raw_ipv6_qp: U32,
        pub max_raw_ethy_qp: U32,
        pub max_mcast_grp: U32,
        pub max_mcast_qp_attach: U32,
        pub max_total_mcast_qp_attach: U32,
        pub max_ah: U32,
        pub max_fmr: U32,
        pub max_map_per_fmr: U32,
        pub max_srq: U32,
        pub max_srq_wr: U32,
        pub max_srq_sge: U32,
        pub max_uar: U32,
        pub gid_tbl_len: U32,
        pub max_pkeys: U16,
        pub local_ca_ack_delay: u8,
        pub phys_port_cnt: u8,
        pub mode: u8,
        pub atomic_ops: u8,
        pub bmme_flags: u8,
        pub gid_types: u8,
        pub max_fast_reg_page_list_len: U32,
    }
}

/// Bits of `device_cap_flags` (`enum ib_device_cap_flags`).
pub mod device_cap {
    /// MODIFY_QP may name the current state.
    pub const CURR_QP_STATE_MOD: u32 = 1 << 7;
    /// Port events are raised.
    pub const PORT_ACTIVE_EVENT: u32 = 1 << 10;
    /// `sys_image_guid` is set.
    pub const SYS_IMAGE_GUID: u32 = 1 << 11;
    /// RNR NAKs are sent.
    pub const RC_RNR_NAK_GEN: u32 = 1 << 12;
}

/// Codes of GID types, in capabilities (as bits) and bindings.
pub mod gid_type {
    /// Ethertype 0x8915.
    pub const ROCE_V1: u8 = 1;
    /// UDP port 4791.
    pub const ROCE_V2: u8 = 2;
}
