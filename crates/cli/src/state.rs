//! `vrdma adapter show --state`

use vrdma_api::{AdapterState, CqState, MrState, Name, QpState, SrqState, paths};
use vrdma_api_client::Client;

use crate::failure::Failure;
use crate::report::Report;
use crate::stats;
use crate::table::{Column, bytes, facts, table};

pub(crate) fn run(client: &Client, name: &Name) -> Result<Report, Failure> {
    let state: AdapterState = client.get(&paths::adapter_state(name))?;
    Ok(Report::new(&state, text(&state)))
}

fn text(state: &AdapterState) -> String {
    let mut rows = vec![("adapter", state.name.to_string())];
    rows.extend(stats::rdma(&state.rdma));
    let (all, told) = (&state.rdma.objects, &state.objects);
    // Windows are not counted as regions.
    let is_region = |mr: &&MrState| !mr.kind.starts_with("window");
    let regions = told.mrs.iter().filter(is_region).count();
    let kinds = [
        (
            qps(&told.qps),
            left_out("queue pairs", all.qp, told.qps.len()),
        ),
        (
            cqs(&told.cqs),
            left_out("completion queues", all.cq, told.cqs.len()),
        ),
        (
            srqs(&told.srqs),
            left_out("shared receive queues", all.srq, told.srqs.len()),
        ),
        (mrs(&told.mrs), left_out("memory regions", all.mr, regions)),
    ];
    let parts = kinds
        .into_iter()
        .flat_map(|(table, rest)| [Some(table), rest]);
    let parts: Vec<String> = parts.flatten().collect();
    format!("{}\n\n{}", facts(rows), parts.join("\n\n"))
}

/// Tells how many objects are not in a table, if any.
fn left_out(what: &str, all: u32, told: usize) -> Option<String> {
    let rest = (all as usize).saturating_sub(told);
    (rest > 0).then(|| format!("{what} that are not shown: {rest}"))
}

fn qps(qps: &[QpState]) -> String {
    const COLUMNS: &[Column] = &[
        Column::Number("QP"),
        Column::Text("SERVICE"),
        Column::Text("STATE"),
        Column::Number("OWNER"),
        Column::Text("CQS"),
        Column::Text("SRQ"),
        Column::Text("PEER"),
        Column::Number("MTU"),
        Column::Text("UNACKED-NEXT"),
        Column::Number("EXPECTED"),
        Column::Number("MSN"),
        Column::Number("SENDS"),
        Column::Number("RECEIVES"),
        Column::Text("RETRIES"),
    ];
    let row = |qp: &QpState| {
        let peer = qp.peer.as_ref().zip(qp.peer_number);
        vec![
            qp.number.to_string(),
            qp.service.clone(),
            qp.state.clone(),
            qp.owner.to_string(),
            format!("{}, {}", qp.send_cq, qp.recv_cq),
            or_dash(qp.srq.map(|srq| srq.to_string())),
            or_dash(peer.map(|(gid, number)| format!("{number} at {gid}"))),
            qp.mtu.to_string(),
            format!("{}-{}", qp.unacked_psn, qp.next_psn),
            qp.expected_psn.to_string(),
            qp.msn.to_string(),
            qp.sends.to_string(),
            qp.receives.to_string(),
            format!("{}, {} RNR", qp.retries, qp.rnr_retries),
        ]
    };
    table(COLUMNS, qps.iter().map(row).collect(), "no queue pairs")
}

fn cqs(cqs: &[CqState]) -> String {
    const COLUMNS: &[Column] = &[
        Column::Number("CQ"),
        Column::Number("OWNER"),
        Column::Text("STATE"),
    ];
    let row = |cq: &CqState| {
        vec![
            cq.number.to_string(),
            cq.owner.to_string(),
            works(cq.failed),
        ]
    };
    table(
        COLUMNS,
        cqs.iter().map(row).collect(),
        "no completion queues",
    )
}

fn srqs(srqs: &[SrqState]) -> String {
    const COLUMNS: &[Column] = &[
        Column::Number("SRQ"),
        Column::Number("OWNER"),
        Column::Number("PD"),
        Column::Number("LIMIT"),
        Column::Number("RECEIVES"),
        Column::Text("STATE"),
    ];
    let row = |srq: &SrqState| {
        vec![
            srq.number.to_string(),
            srq.owner.to_string(),
            srq.pd.to_string(),
            srq.limit.to_string(),
            srq.receives.to_string(),
            works(srq.failed),
        ]
    };
    table(
        COLUMNS,
        srqs.iter().map(row).collect(),
        "no shared receive queues",
    )
}

fn mrs(mrs: &[MrState]) -> String {
    const COLUMNS: &[Column] = &[
        Column::Number("MR"),
        Column::Number("PD"),
        Column::Text("KIND"),
        Column::Number("BYTES"),
        Column::Text("ACCESS"),
        Column::Text("STATE"),
    ];
    let row = |mr: &MrState| {
        let state = if mr.valid { "valid" } else { "empty" };
        vec![
            mr.slot.to_string(),
            mr.pd.to_string(),
            mr.kind.clone(),
            bytes(mr.bytes),
            or_dash((!mr.access.is_empty()).then(|| mr.access.join(" "))),
            state.to_owned(),
        ]
    };
    table(COLUMNS, mrs.iter().map(row).collect(), "no memory regions")
}

fn works(failed: bool) -> String {
    let state = if failed { "failed" } else { "works" };
    state.to_owned()
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_facts_and_tables() {
        let state: AdapterState = serde_json::from_value(serde_json::json!({
            "name": "vm1",
            "rdma": {
                "guest_connected": true, "state": "active", "driver_version": 20, "gids": ["fe80::1"],
                "objects": { "uc": 1, "pd": 1, "mr": 1, "cq": 1, "qp": 3, "srq": 0 },
                "counters": {
                    "tx_messages": 2, "tx_bytes": 20, "rx_messages": 0, "rx_bytes": 0, "retries": 0,
                    "naks_sent": 0, "naks_received": 0, "drops": {},
                },
            },
            "qps": [{
                "number": 77, "service": "rc", "state": "rts", "owner": 1, "send_cq": 3, "recv_cq": 4,
                "peer": "fe80::2", "peer_number": 78, "mtu": 1024, "unacked_psn": 5, "next_psn": 9,
                "expected_psn": 11, "msn": 2, "sends": 4, "receives": 8, "retries": 1, "rnr_retries": 0,
            }, {
                "number": 1, "service": "gsi", "state": "rts", "owner": 0, "send_cq": 0, "recv_cq": 0,
                "mtu": 4096, "unacked_psn": 0, "next_psn": 0, "expected_psn": 0, "msn": 0, "sends": 0,
                "receives": 0, "retries": 0, "rnr_retries": 0,
            }],
            "cqs": [{ "number": 3, "owner": 1, "failed": true }],
            "srqs": [],
            "mrs": [{ "slot": 6, "pd": 2, "kind": "user", "bytes": 4096, "access": ["local-write", "remote-read"], "valid": true }],
        }))
        .unwrap();
        insta::assert_snapshot!(text(&state), @r#"
        adapter          vm1
        guest connected  yes
        device           active
        driver version   20
        GIDs             fe80::1
        objects          uc 1, pd 1, mr 1, cq 1, qp 3, srq 0
        RDMA sent        2 messages, 20 B
        RDMA received    0 messages, 0 B
        retries          0
        NAKs             0 sent, 0 received
        RDMA drops       none

        QP  SERVICE  STATE  OWNER  CQS   SRQ  PEER            MTU  UNACKED-NEXT  EXPECTED  MSN  SENDS  RECEIVES  RETRIES
        77  rc       rts        1  3, 4  -    78 at fe80::2  1024  5-9                 11    2      4         8  1, 0 RNR
         1  gsi      rts        0  0, 0  -    -              4096  0-0                  0    0      0         0  0, 0 RNR

        queue pairs that are not shown: 1

        CQ  OWNER  STATE
         3      1  failed

        no shared receive queues

        MR  PD  KIND    BYTES  ACCESS                   STATE
         6   2  user  4.0 KiB  local-write remote-read  valid
        "#);
    }
}
