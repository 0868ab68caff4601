//! The structures of `cm::abi` against the installed header: the C compiler checks every size and
//! offset. Needs `librdmacm-dev` (scripts/setup).

use std::io::Write;
use std::mem::offset_of;
use std::process::{Command, Stdio};

use vrdma_ibverbs::cm::abi;

/// `Rust type = C type { field, ... }` for fields that have the same name in both.
macro_rules! checks {
    ($($rust:ident = $c:literal { $($field:ident),* $(,)? })*) => {{
        let mut text = String::new();
        $(
            text += &format!(
                "_Static_assert(sizeof(struct {0}) == {1}, \"sizeof {0}\");\n",
                $c, size_of::<abi::$rust>()
            );
            $(text += &offset($c, stringify!($field), offset_of!(abi::$rust, $field));)*
        )*
        text
    }};
}

fn offset(structure: &str, member: &str, bytes: usize) -> String {
    format!(
        "_Static_assert(offsetof(struct {structure}, {member}) == {bytes}, \"{structure}.{member}\");\n"
    )
}

fn compile(asserts: &str) -> std::process::Output {
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-fsyntax-only", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cc runs");
    let text = format!("#include <rdma/rdma_cma.h>\n{asserts}");
    compiler
        .stdin
        .take()
        .expect("a pipe")
        .write_all(text.as_bytes())
        .expect("cc reads");
    compiler.wait_with_output().expect("cc ends")
}

fn structures() -> String {
    checks! {
        IbAddress = "rdma_ib_addr" { sgid, dgid, pkey }
        Address = "rdma_addr" { src_storage, dst_storage, addr }
        PathRecord = "ibv_sa_path_rec" {
            dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class, reversible,
            numb_path, pkey, sl, mtu_selector, mtu, rate_selector, rate,
            packet_life_time_selector, packet_life_time, preference,
        }
        Route = "rdma_route" { addr, path_rec, num_paths }
        EventChannel = "rdma_event_channel" { fd }
        Id = "rdma_cm_id" {
            verbs, channel, context, qp, route, ps, port_num, event, send_cq_channel, send_cq,
            recv_cq_channel, recv_cq, srq, pd, qp_type,
        }
        ConnParam = "rdma_conn_param" {
            private_data, private_data_len, responder_resources, initiator_depth, flow_control,
            retry_count, rnr_retry_count, srq, qp_num,
        }
        UdParam = "rdma_ud_param" { private_data, private_data_len, ah_attr, qp_num, qkey }
        Event = "rdma_cm_event" { id, listen_id, event, status, param }
        AddrInfo = "rdma_addrinfo" {
            ai_flags, ai_family, ai_qp_type, ai_port_space, ai_src_len, ai_dst_len, ai_src_addr,
            ai_dst_addr, ai_src_canonname, ai_dst_canonname, ai_route_len, ai_route,
            ai_connect_len, ai_connect, ai_next,
        }
        JoinAttr = "rdma_cm_join_mc_attr_ex" { comp_mask, join_flags, addr }
    }
}

#[test]
fn structures_have_the_layout_of_the_installed_header() {
    let output = compile(&structures());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_wrong_offset_is_found() {
    assert!(!compile(&offset("rdma_cm_id", "qp", 1)).status.success());
}
