//! The structures of `abi` against the header of rdma-core that is installed: the C compiler
//! checks every size and offset. Needs `libibverbs-dev` (scripts/setup).

use std::io::Write;
use std::mem::offset_of;
use std::process::{Command, Stdio};

use vrdma_ibverbs::abi;

/// `name: Rust type as C type { field as C field, ... }`
macro_rules! checks {
    ($($rust:ident = $c:literal { $($field:tt $(. $part:tt)* = $member:literal),* $(,)? })*) => {{
        let mut text = String::new();
        $(
            text += &size($c, size_of::<abi::$rust>());
            $(text += &offset($c, $member, offset_of!(abi::$rust, $field $(. $part)*));)*
        )*
        text
    }};
}

fn size(structure: &str, bytes: usize) -> String {
    format!(
        "_Static_assert(sizeof(struct {structure}) == {bytes}, \"sizeof {structure}: {bytes}\");\n"
    )
}

fn offset(structure: &str, member: &str, bytes: usize) -> String {
    format!(
        "_Static_assert(offsetof(struct {structure}, {member}) == {bytes}, \"{structure}.{member}: {bytes}\");\n"
    )
}

fn compile(asserts: &str) -> std::process::Output {
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-fsyntax-only", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cc runs");
    let text = format!("#include <infiniband/verbs.h>\n{asserts}");
    compiler
        .stdin
        .take()
        .expect("a pipe")
        .write_all(text.as_bytes())
        .expect("cc reads");
    compiler.wait_with_output().expect("cc ends")
}

#[test]
fn structures_have_the_layout_of_the_installed_header() {
    let output = compile(&(objects() + &attributes() + &requests()));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_wrong_offset_is_found() {
    assert!(!compile(&offset("ibv_qp", "qp_num", 1)).status.success());
}

fn objects() -> String {
    checks! {
        Device = "ibv_device" { _ops = "_ops", node_type = "node_type", transport_type = "transport_type", name = "name", dev_name = "dev_name", dev_path = "dev_path", ibdev_path = "ibdev_path" }
        Pd = "ibv_pd" { context = "context", handle = "handle" }
        Td = "ibv_td" { context = "context" }
        Mr = "ibv_mr" { context = "context", pd = "pd", addr = "addr", length = "length", handle = "handle", lkey = "lkey", rkey = "rkey" }
        Mw = "ibv_mw" { context = "context", pd = "pd", rkey = "rkey", handle = "handle", type_ = "type" }
        Ah = "ibv_ah" { context = "context", pd = "pd", handle = "handle" }
        Context = "ibv_context" { device = "device", ops = "ops", cmd_fd = "cmd_fd", async_fd = "async_fd", num_comp_vectors = "num_comp_vectors", mutex = "mutex", abi_compat = "abi_compat" }
        CompChannel = "ibv_comp_channel" { context = "context", fd = "fd", refcnt = "refcnt" }
        Cq = "ibv_cq" { context = "context", channel = "channel", cq_context = "cq_context", handle = "handle", cqe = "cqe", mutex = "mutex", cond = "cond", comp_events_completed = "comp_events_completed", async_events_completed = "async_events_completed" }
        AsyncEvent = "ibv_async_event" { element = "element", event_type = "event_type" }
        Qp = "ibv_qp" { context = "context", qp_context = "qp_context", pd = "pd", send_cq = "send_cq", recv_cq = "recv_cq", srq = "srq", handle = "handle", qp_num = "qp_num", state = "state", qp_type = "qp_type", mutex = "mutex", cond = "cond", events_completed = "events_completed" }
        QpEx = "ibv_qp_ex" { qp_base = "qp_base", comp_mask = "comp_mask", wr_id = "wr_id", wr_flags = "wr_flags", wr_atomic_cmp_swp = "wr_atomic_cmp_swp", wr_atomic_fetch_add = "wr_atomic_fetch_add", wr_bind_mw = "wr_bind_mw", wr_local_inv = "wr_local_inv", wr_rdma_read = "wr_rdma_read", wr_rdma_write = "wr_rdma_write", wr_rdma_write_imm = "wr_rdma_write_imm", wr_send = "wr_send", wr_send_imm = "wr_send_imm", wr_send_inv = "wr_send_inv", wr_send_tso = "wr_send_tso", wr_set_ud_addr = "wr_set_ud_addr", wr_set_xrc_srqn = "wr_set_xrc_srqn", wr_set_inline_data = "wr_set_inline_data", wr_set_inline_data_list = "wr_set_inline_data_list", wr_set_sge = "wr_set_sge", wr_set_sge_list = "wr_set_sge_list", wr_start = "wr_start", wr_complete = "wr_complete", wr_abort = "wr_abort", wr_atomic_write = "wr_atomic_write" }
        Srq = "ibv_srq" { context = "context", srq_context = "srq_context", pd = "pd", handle = "handle", mutex = "mutex", cond = "cond", events_completed = "events_completed" }
        ContextOps = "ibv_context_ops" { query_device = "_compat_query_device", query_port = "_compat_query_port", alloc_mw = "alloc_mw", bind_mw = "bind_mw", dealloc_mw = "dealloc_mw", poll_cq = "poll_cq", req_notify_cq = "req_notify_cq", post_srq_recv = "post_srq_recv", post_send = "post_send", post_recv = "post_recv" }
        VerbsContext = "verbs_context" { query_port = "query_port", advise_mr = "advise_mr", alloc_null_mr = "alloc_null_mr", read_counters = "read_counters", attach_counters_point_flow = "attach_counters_point_flow", create_counters = "create_counters", destroy_counters = "destroy_counters", reg_dm_mr = "reg_dm_mr", alloc_dm = "alloc_dm", free_dm = "free_dm", modify_flow_action_esp = "modify_flow_action_esp", destroy_flow_action = "destroy_flow_action", create_flow_action_esp = "create_flow_action_esp", modify_qp_rate_limit = "modify_qp_rate_limit", alloc_parent_domain = "alloc_parent_domain", dealloc_td = "dealloc_td", alloc_td = "alloc_td", modify_cq = "modify_cq", post_srq_ops = "post_srq_ops", destroy_rwq_ind_table = "destroy_rwq_ind_table", create_rwq_ind_table = "create_rwq_ind_table", destroy_wq = "destroy_wq", modify_wq = "modify_wq", create_wq = "create_wq", query_rt_values = "query_rt_values", create_cq_ex = "create_cq_ex", priv_ = "priv", query_device_ex = "query_device_ex", ibv_destroy_flow = "ibv_destroy_flow", abi_placeholder2 = "ABI_placeholder2", ibv_create_flow = "ibv_create_flow", abi_placeholder1 = "ABI_placeholder1", open_qp = "open_qp", create_qp_ex = "create_qp_ex", get_srq_num = "get_srq_num", create_srq_ex = "create_srq_ex", open_xrcd = "open_xrcd", close_xrcd = "close_xrcd", abi_placeholder3 = "_ABI_placeholder3", sz = "sz", context = "context" }
        CqEx = "ibv_cq_ex" { base.async_events_completed = "async_events_completed", comp_mask = "comp_mask", status = "status", wr_id = "wr_id", start_poll = "start_poll", next_poll = "next_poll", end_poll = "end_poll", read_opcode = "read_opcode", read_vendor_err = "read_vendor_err", read_byte_len = "read_byte_len", read_imm_data = "read_imm_data", read_qp_num = "read_qp_num", read_src_qp = "read_src_qp", read_wc_flags = "read_wc_flags", read_slid = "read_slid", read_sl = "read_sl", read_dlid_path_bits = "read_dlid_path_bits", read_completion_ts = "read_completion_ts", read_cvlan = "read_cvlan", read_flow_tag = "read_flow_tag", read_tm_info = "read_tm_info", read_completion_wallclock_ns = "read_completion_wallclock_ns" }
    }
}

fn attributes() -> String {
    checks! {
        DeviceAttr = "ibv_device_attr" { fw_ver = "fw_ver", node_guid = "node_guid", sys_image_guid = "sys_image_guid", max_mr_size = "max_mr_size", page_size_cap = "page_size_cap", vendor_id = "vendor_id", vendor_part_id = "vendor_part_id", hw_ver = "hw_ver", max_qp = "max_qp", max_qp_wr = "max_qp_wr", device_cap_flags = "device_cap_flags", max_sge = "max_sge", max_sge_rd = "max_sge_rd", max_cq = "max_cq", max_cqe = "max_cqe", max_mr = "max_mr", max_pd = "max_pd", max_qp_rd_atom = "max_qp_rd_atom", max_ee_rd_atom = "max_ee_rd_atom", max_res_rd_atom = "max_res_rd_atom", max_qp_init_rd_atom = "max_qp_init_rd_atom", max_ee_init_rd_atom = "max_ee_init_rd_atom", atomic_cap = "atomic_cap", max_ee = "max_ee", max_rdd = "max_rdd", max_mw = "max_mw", max_raw_ipv6_qp = "max_raw_ipv6_qp", max_raw_ethy_qp = "max_raw_ethy_qp", max_mcast_grp = "max_mcast_grp", max_mcast_qp_attach = "max_mcast_qp_attach", max_total_mcast_qp_attach = "max_total_mcast_qp_attach", max_ah = "max_ah", max_fmr = "max_fmr", max_map_per_fmr = "max_map_per_fmr", max_srq = "max_srq", max_srq_wr = "max_srq_wr", max_srq_sge = "max_srq_sge", max_pkeys = "max_pkeys", local_ca_ack_delay = "local_ca_ack_delay", phys_port_cnt = "phys_port_cnt" }
        TsoCaps = "ibv_tso_caps" { max_tso = "max_tso", supported_qpts = "supported_qpts" }
        RssCaps = "ibv_rss_caps" { supported_qpts = "supported_qpts", max_rwq_indirection_tables = "max_rwq_indirection_tables", max_rwq_indirection_table_size = "max_rwq_indirection_table_size", rx_hash_fields_mask = "rx_hash_fields_mask", rx_hash_function = "rx_hash_function" }
        PacketPacingCaps = "ibv_packet_pacing_caps" { qp_rate_limit_min = "qp_rate_limit_min", qp_rate_limit_max = "qp_rate_limit_max", supported_qpts = "supported_qpts" }
        TmCaps = "ibv_tm_caps" { max_rndv_hdr_size = "max_rndv_hdr_size", max_num_tags = "max_num_tags", flags = "flags", max_ops = "max_ops", max_sge = "max_sge" }
        CqModerationCaps = "ibv_cq_moderation_caps" { max_cq_count = "max_cq_count", max_cq_period = "max_cq_period" }
        PciAtomicCaps = "ibv_pci_atomic_caps" { fetch_add = "fetch_add", swap = "swap", compare_swap = "compare_swap" }
        DeviceAttrEx = "ibv_device_attr_ex" { orig_attr = "orig_attr", comp_mask = "comp_mask", odp_caps = "odp_caps", completion_timestamp_mask = "completion_timestamp_mask", hca_core_clock = "hca_core_clock", device_cap_flags_ex = "device_cap_flags_ex", tso_caps = "tso_caps", rss_caps = "rss_caps", max_wq_type_rq = "max_wq_type_rq", packet_pacing_caps = "packet_pacing_caps", raw_packet_caps = "raw_packet_caps", tm_caps = "tm_caps", cq_mod_caps = "cq_mod_caps", max_dm_size = "max_dm_size", pci_atomic_caps = "pci_atomic_caps", xrc_odp_caps = "xrc_odp_caps", phys_port_cnt_ex = "phys_port_cnt_ex", odp_caps.ud_odp_caps = "odp_caps.per_transport_caps.ud_odp_caps" }
        PortAttr = "ibv_port_attr" { state = "state", max_mtu = "max_mtu", active_mtu = "active_mtu", gid_tbl_len = "gid_tbl_len", port_cap_flags = "port_cap_flags", max_msg_sz = "max_msg_sz", bad_pkey_cntr = "bad_pkey_cntr", qkey_viol_cntr = "qkey_viol_cntr", pkey_tbl_len = "pkey_tbl_len", lid = "lid", sm_lid = "sm_lid", lmc = "lmc", max_vl_num = "max_vl_num", sm_sl = "sm_sl", subnet_timeout = "subnet_timeout", init_type_reply = "init_type_reply", active_width = "active_width", active_speed = "active_speed", phys_state = "phys_state", link_layer = "link_layer", flags = "flags", port_cap_flags2 = "port_cap_flags2" }
        GidEntry = "ibv_gid_entry" { gid = "gid", gid_index = "gid_index", port_num = "port_num", gid_type = "gid_type", ndev_ifindex = "ndev_ifindex" }
        GlobalRoute = "ibv_global_route" { dgid = "dgid", flow_label = "flow_label", sgid_index = "sgid_index", hop_limit = "hop_limit", traffic_class = "traffic_class" }
        AhAttr = "ibv_ah_attr" { grh = "grh", dlid = "dlid", sl = "sl", src_path_bits = "src_path_bits", static_rate = "static_rate", is_global = "is_global", port_num = "port_num" }
        Grh = "ibv_grh" { version_tclass_flow = "version_tclass_flow", paylen = "paylen", next_hdr = "next_hdr", hop_limit = "hop_limit", sgid = "sgid", dgid = "dgid" }
        ParentDomainInitAttr = "ibv_parent_domain_init_attr" { pd = "pd", td = "td", comp_mask = "comp_mask", alloc = "alloc", free = "free", pd_context = "pd_context" }
        CqInitAttrEx = "ibv_cq_init_attr_ex" { cqe = "cqe", cq_context = "cq_context", channel = "channel", comp_vector = "comp_vector", wc_flags = "wc_flags", comp_mask = "comp_mask", flags = "flags", parent_domain = "parent_domain" }
        QpCap = "ibv_qp_cap" { max_send_wr = "max_send_wr", max_recv_wr = "max_recv_wr", max_send_sge = "max_send_sge", max_recv_sge = "max_recv_sge", max_inline_data = "max_inline_data" }
        QpInitAttr = "ibv_qp_init_attr" { qp_context = "qp_context", send_cq = "send_cq", recv_cq = "recv_cq", srq = "srq", cap = "cap", qp_type = "qp_type", sq_sig_all = "sq_sig_all" }
        RxHashConf = "ibv_rx_hash_conf" { rx_hash_function = "rx_hash_function", rx_hash_key_len = "rx_hash_key_len", rx_hash_key = "rx_hash_key", rx_hash_fields_mask = "rx_hash_fields_mask" }
        QpAttr = "ibv_qp_attr" { qp_state = "qp_state", cur_qp_state = "cur_qp_state", path_mtu = "path_mtu", path_mig_state = "path_mig_state", qkey = "qkey", rq_psn = "rq_psn", sq_psn = "sq_psn", dest_qp_num = "dest_qp_num", qp_access_flags = "qp_access_flags", cap = "cap", ah_attr = "ah_attr", alt_ah_attr = "alt_ah_attr", pkey_index = "pkey_index", alt_pkey_index = "alt_pkey_index", en_sqd_async_notify = "en_sqd_async_notify", sq_draining = "sq_draining", max_rd_atomic = "max_rd_atomic", max_dest_rd_atomic = "max_dest_rd_atomic", min_rnr_timer = "min_rnr_timer", port_num = "port_num", timeout = "timeout", retry_cnt = "retry_cnt", rnr_retry = "rnr_retry", alt_port_num = "alt_port_num", alt_timeout = "alt_timeout", rate_limit = "rate_limit" }
        Ece = "ibv_ece" { vendor_id = "vendor_id", options = "options", comp_mask = "comp_mask" }
        SrqAttr = "ibv_srq_attr" { max_wr = "max_wr", max_sge = "max_sge", srq_limit = "srq_limit" }
        SrqInitAttr = "ibv_srq_init_attr" { srq_context = "srq_context", attr = "attr" }
        TmCap = "ibv_tm_cap" { max_num_tags = "max_num_tags", max_ops = "max_ops" }
        SrqInitAttrEx = "ibv_srq_init_attr_ex" { srq_context = "srq_context", attr = "attr", comp_mask = "comp_mask", srq_type = "srq_type", pd = "pd", xrcd = "xrcd", cq = "cq", tm_cap = "tm_cap" }
        QpInitAttrEx = "ibv_qp_init_attr_ex" { sq_sig_all = "sq_sig_all", comp_mask = "comp_mask", pd = "pd", xrcd = "xrcd", create_flags = "create_flags", max_tso_header = "max_tso_header", rwq_ind_tbl = "rwq_ind_tbl", rx_hash_conf = "rx_hash_conf", source_qpn = "source_qpn", send_ops_flags = "send_ops_flags" }
        ModifyCqAttr = "ibv_modify_cq_attr" { attr_mask = "attr_mask", cq_count = "moderate.cq_count", cq_period = "moderate.cq_period" }
    }
}

fn requests() -> String {
    checks! {
        MwBindInfo = "ibv_mw_bind_info" { mr = "mr", addr = "addr", length = "length", mw_access_flags = "mw_access_flags" }
        MwBind = "ibv_mw_bind" { wr_id = "wr_id", send_flags = "send_flags", bind_info = "bind_info" }
        Wc = "ibv_wc" { wr_id = "wr_id", status = "status", opcode = "opcode", vendor_err = "vendor_err", byte_len = "byte_len", imm_data = "imm_data", qp_num = "qp_num", src_qp = "src_qp", wc_flags = "wc_flags", pkey_index = "pkey_index", slid = "slid", sl = "sl", dlid_path_bits = "dlid_path_bits" }
        DataBuf = "ibv_data_buf" { addr = "addr", length = "length" }
        Sge = "ibv_sge" { addr = "addr", length = "length", lkey = "lkey" }
        SendWr = "ibv_send_wr" { wr_id = "wr_id", next = "next", sg_list = "sg_list", num_sge = "num_sge", opcode = "opcode", send_flags = "send_flags", imm_data = "imm_data", wr = "wr", remote_srqn = "qp_type.xrc.remote_srqn", tail = "bind_mw", wr.rdma.rkey = "wr.rdma.rkey", wr.atomic.swap = "wr.atomic.swap", wr.atomic.rkey = "wr.atomic.rkey", wr.ud.remote_qkey = "wr.ud.remote_qkey", tail.bind_mw.bind_info = "bind_mw.bind_info", tail.tso.mss = "tso.mss" }
        RecvWr = "ibv_recv_wr" { wr_id = "wr_id", next = "next", sg_list = "sg_list", num_sge = "num_sge" }
    }
}
