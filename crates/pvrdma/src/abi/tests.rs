//! The layouts, compared with `offsetof` and `sizeof` of the Linux 6.12 headers.

use core::mem::{offset_of, size_of};

use super::command::{HEADER_BYTES, REQUEST_BYTES, RESPONSE_BYTES};
use super::{completion, event, qp, region, request, response, work};

/// Checks offsets of fields and the size of a structure.
macro_rules! layout {
    ($type:ty, $size:expr $(, $field:ident @ $offset:expr)* $(,)?) => {
        $(assert_eq!(
            offset_of!($type, $field), $offset,
            concat!(stringify!($type), ".", stringify!($field))
        );)*
        assert_eq!(size_of::<$type>(), $size, stringify!($type));
    };
}

#[test]
fn shared_region() {
    use region::{Capabilities, RingPages, SharedRegion};
    layout!(RingPages, 16, num_pages @ 0, pdir_dma @ 8);
    layout!(SharedRegion, 280, driver_version @ 0, guest_os @ 8, cmd_slot_dma @ 16,
        resp_slot_dma @ 24, async_ring @ 32, cq_ring @ 48, uar_pfn @ 64, caps @ 72);
    layout!(Capabilities, 208, fw_ver @ 0, node_guid @ 8, sys_image_guid @ 16, max_mr_size @ 24,
        page_size_cap @ 32, atomic_arg_sizes @ 40, ex_comp_mask @ 48, device_cap_flags2 @ 52,
        max_fa_bit_boundary @ 56, log_max_atomic_inline_arg @ 60, vendor_id @ 64,
        vendor_part_id @ 68, hw_ver @ 72, max_qp @ 76, max_qp_wr @ 80, device_cap_flags @ 84,
        max_sge @ 88, max_sge_rd @ 92, max_cq @ 96, max_cqe @ 100, max_mr @ 104, max_pd @ 108,
        max_qp_rd_atom @ 112, max_ee_rd_atom @ 116, max_res_rd_atom @ 120,
        max_qp_init_rd_atom @ 124, max_ee_init_rd_atom @ 128, max_total_mcast_qp_attach @ 160,
        max_ah @ 164, max_fmr @ 168, max_map_per_fmr @ 172, max_srq @ 176, max_srq_wr @ 180,
        max_srq_sge @ 184, max_uar @ 188, gid_tbl_len @ 192, max_pkeys @ 196,
        local_ca_ack_delay @ 198, phys_port_cnt @ 199, mode @ 200, atomic_ops @ 201,
        bmme_flags @ 202, gid_types @ 203, max_fast_reg_page_list_len @ 204);
}

/// Checks a body: the reference counts its offsets from the first byte of the header.
macro_rules! body {
    ($type:ty, $size:expr $(, $field:ident @ $offset:expr)* $(,)?) => {
        layout!($type, $size - HEADER_BYTES $(, $field @ $offset - HEADER_BYTES)*);
    };
}

#[test]
fn requests() {
    use request::*;
    layout!(super::command::RequestHeader, HEADER_BYTES, response @ 0, command @ 8);
    body!(QueryPort, 24, port @ 16);
    body!(QueryPkey, 24, port @ 16, index @ 17);
    body!(Context, 24, ctx_handle @ 16);
    body!(Handle, 24, handle @ 16);
    body!(CreateUc, 24, pfn @ 16);
    body!(CreateMr, 56, start @ 16, length @ 24, pdir_dma @ 32, pd_handle @ 40,
        access_flags @ 44, flags @ 48, nchunks @ 52);
    body!(CreateCq, 40, pdir_dma @ 16, ctx_handle @ 24, cqe @ 28, nchunks @ 32);
    body!(ResizeCq, 24, cq_handle @ 16, cqe @ 20);
    body!(CreateSrq, 56, pdir_dma @ 16, pd_handle @ 24, nchunks @ 28, attrs @ 32, srq_type @ 48);
    body!(ModifySrq, 40, srq_handle @ 16, attr_mask @ 20, attrs @ 24);
    body!(CreateQp, 80, pdir_dma @ 16, pd_handle @ 24, send_cq_handle @ 28, recv_cq_handle @ 32,
        srq_handle @ 36, max_send_wr @ 40, max_recv_wr @ 44, max_send_sge @ 48, max_recv_sge @ 52,
        max_inline_data @ 56, lkey @ 60, access_flags @ 64, total_chunks @ 68, send_chunks @ 70,
        max_atomic_arg @ 72, sq_sig_all @ 74, qp_type @ 75, is_srq @ 76, reserved @ 77);
    body!(ModifyQp, 184, qp_handle @ 16, attr_mask @ 20, attrs @ 24);
    body!(QueryQp, 24, qp_handle @ 16, attr_mask @ 20);
    body!(CreateBind, 48, mtu @ 16, vlan @ 20, index @ 24, gid @ 28, gid_type @ 44);
    body!(DestroyBind, 40, index @ 16, gid @ 20);
    assert_eq!(size_of::<ModifyQp>() + HEADER_BYTES, REQUEST_BYTES);
}

#[test]
fn responses() {
    use response::*;
    layout!(super::command::ResponseHeader, HEADER_BYTES, response @ 0, ack @ 8, error @ 12);
    body!(PortAttributes, 64, state @ 16, max_mtu @ 20, active_mtu @ 24, gid_tbl_len @ 28,
        port_cap_flags @ 32, max_msg_sz @ 36, bad_pkey_cntr @ 40, qkey_viol_cntr @ 44,
        pkey_tbl_len @ 48, lid @ 50, sm_lid @ 52, lmc @ 54, max_vl_num @ 55, sm_sl @ 56,
        subnet_timeout @ 57, init_type_reply @ 58, active_width @ 59, active_speed @ 60,
        phys_state @ 61, reserved @ 62);
    body!(Pkey, 24, pkey @ 16);
    body!(Created, 24, handle @ 16);
    body!(CreatedMr, 32, mr_handle @ 16, lkey @ 20, rkey @ 24);
    body!(CreatedCq, 24, cq_handle @ 16, cqe @ 20);
    body!(CreatedQpV1, 40, qpn @ 16, sizes @ 20);
    body!(CreatedQp, 48, qpn @ 16, qp_handle @ 20, sizes @ 24);
    layout!(QpSizes, 20, max_send_wr @ 0, max_recv_wr @ 4, max_send_sge @ 8, max_recv_sge @ 12,
        max_inline_data @ 16);
    layout!(request::SrqAttributes, 16, max_wr @ 0, max_sge @ 4, srq_limit @ 8);
    assert_eq!(size_of::<qp::QpAttributes>() + HEADER_BYTES, RESPONSE_BYTES);
}

#[test]
fn queue_pair_attributes() {
    use qp::{AddressAttributes, QpAttributes, QpCapacity};
    layout!(QpAttributes, 160, qp_state @ 0, cur_qp_state @ 4, path_mtu @ 8, path_mig_state @ 12,
        qkey @ 16, rq_psn @ 20, sq_psn @ 24, dest_qp_num @ 28, qp_access_flags @ 32,
        pkey_index @ 36, alt_pkey_index @ 38, en_sqd_async_notify @ 40, sq_draining @ 41,
        max_rd_atomic @ 42, max_dest_rd_atomic @ 43, min_rnr_timer @ 44, port_num @ 45,
        timeout @ 46, retry_cnt @ 47, rnr_retry @ 48, alt_port_num @ 49, alt_timeout @ 50,
        cap @ 56, ah_attr @ 80, alt_ah_attr @ 120);
    layout!(QpCapacity, 24, max_send_wr @ 0, max_inline_data @ 16);
    layout!(AddressAttributes, 40, dgid @ 0, flow_label @ 16, sgid_index @ 20, hop_limit @ 21,
        traffic_class @ 22, dlid @ 24, vlan_id @ 26, sl @ 28, src_path_bits @ 29,
        static_rate @ 30, ah_flags @ 31, port_num @ 32, dmac @ 33);
}

#[test]
fn work_requests() {
    use work::*;
    layout!(SendHeader, SEND_HEADER_BYTES, wr_id @ 0, num_sge @ 8, total_len @ 12, opcode @ 16,
        send_flags @ 20, ex @ 24, reserved @ 28, part @ 32);
    layout!(RdmaPart, 16, remote_addr @ 0, rkey @ 8);
    layout!(AtomicPart, 32, remote_addr @ 0, compare_add @ 8, swap @ 16, rkey @ 24);
    layout!(FastRegisterPart, 40, iova_start @ 0, pl_pdir_dma @ 8, page_shift @ 16,
        page_list_len @ 20, length @ 24, access_flags @ 28, rkey @ 32);
    layout!(DatagramPart, 48, remote_qpn @ 0, remote_qkey @ 4, av @ 8);
    layout!(AddressVector, 40, port_pd @ 0, sl_tclass_flowlabel @ 4, dgid @ 8, src_path_bits @ 24,
        gid_index @ 25, stat_rate @ 26, hop_limit @ 27, dmac @ 28, reserved @ 34);
    layout!(RecvHeader, RECV_HEADER_BYTES, wr_id @ 0, num_sge @ 8, total_len @ 12);
    layout!(SgeEntry, SGE_BYTES, addr @ 0, length @ 8, lkey @ 12);
}

#[test]
fn completions_and_ring_entries() {
    use completion::CompletionEntry;
    layout!(CompletionEntry, 64, wr_id @ 0, qp @ 8, opcode @ 16, status @ 20, byte_len @ 24,
        imm @ 28, src_qp @ 32, wc_flags @ 36, vendor_err @ 40, pkey_index @ 44, slid @ 46,
        sl @ 48, dlid_path_bits @ 49, port_num @ 50, smac @ 51, network_hdr_type @ 57,
        reserved @ 58);
    layout!(event::EventEntry, 8, code @ 0, info @ 4);
    layout!(event::NotifyEntry, 4, cq @ 0);
}
