//! `vrdma stats`

use std::collections::BTreeMap;

use vrdma_api::{
    AdapterStats, EthernetStats, Name, ObjectCounts, RdmaStats, RegionCounts, Usage, paths,
};
use vrdma_api_client::Client;

use crate::adapter;
use crate::failure::Failure;
use crate::limits;
use crate::report::Report;
use crate::status::rdma_state;
use crate::table::{Column, bytes, facts, table, yes_no};
use crate::user;

pub(crate) fn run(client: &Client, name: Option<&Name>) -> Result<Report, Failure> {
    match name {
        Some(name) => {
            let stats: AdapterStats = client.get(&paths::adapter_stats(name))?;
            Ok(Report::new(&stats, one_text(&stats)))
        }
        None => {
            let stats: Vec<AdapterStats> = client.get(paths::STATS)?;
            let usage: Usage = client.get(paths::USERS)?;
            Ok(Report::new(&stats, with_users(all_text(&stats), &usage)))
        }
    }
}

/// Adds what users have of their quotas below the adapters; as JSON, `vrdma user list` has it.
fn with_users(adapters: String, usage: &Usage) -> String {
    match usage.users.is_empty() {
        true => adapters,
        false => format!("{adapters}\n\n{}", user::list_text(usage)),
    }
}

fn all_text(stats: &[AdapterStats]) -> String {
    const COLUMNS: &[Column] = &[
        Column::Text("ADAPTER"),
        Column::Text("RDMA"),
        Column::Number("QPS"),
        Column::Number("MRS"),
        Column::Number("SENT"),
        Column::Number("RECEIVED"),
        Column::Number("RETRIES"),
        Column::Number("NAKS"),
        Column::Number("DROPS"),
        Column::Number("THROTTLED"),
        Column::Number("ETH SENT"),
        Column::Number("ETH RECEIVED"),
        Column::Number("ETH DROPS"),
    ];
    table(COLUMNS, stats.iter().map(row).collect(), adapter::NONE)
}

fn row(stats: &AdapterStats) -> Vec<String> {
    let (rdma, counters, ethernet) = (&stats.rdma, &stats.rdma.counters, &stats.ethernet);
    vec![
        stats.name.to_string(),
        rdma_state(stats),
        rdma.objects.qp.to_string(),
        rdma.objects.mr.to_string(),
        bytes(counters.tx_bytes),
        bytes(counters.rx_bytes),
        counters.retries.to_string(),
        (counters.naks_sent + counters.naks_received).to_string(),
        total(&counters.drops).to_string(),
        (rdma.throttled.times + rdma.throttled_in.times).to_string(),
        bytes(ethernet.tx_bytes),
        bytes(ethernet.rx_bytes),
        total(&ethernet.drops).to_string(),
    ]
}

fn total(drops: &BTreeMap<String, u64>) -> u64 {
    drops
        .values()
        .fold(0, |sum, count| sum.saturating_add(*count))
}

fn one_text(stats: &AdapterStats) -> String {
    let mut rows = vec![("adapter", stats.name.to_string())];
    rows.extend(rdma(&stats.rdma));
    rows.extend(ethernet(&stats.ethernet));
    facts(rows)
}

pub(crate) fn rdma(stats: &RdmaStats) -> Vec<(&'static str, String)> {
    let counters = &stats.counters;
    let version = stats
        .driver_version
        .map_or("unknown".to_owned(), |version| version.to_string());
    let who = match stats.processes {
        Some(processes) => vec![("processes", processes.to_string())],
        None => vec![
            ("guest connected", yes_no(stats.guest_connected)),
            ("device", or_dash(stats.state.clone())),
            ("driver version", version),
        ],
    };
    let learned: Vec<_> = stats.learned.iter().map(ToString::to_string).collect();
    let learned = (!learned.is_empty()).then(|| ("learned", learned.join(" ")));
    let more = [
        (
            "RDMA sent",
            messages(counters.tx_messages, "messages", counters.tx_bytes),
        ),
        (
            "RDMA received",
            messages(counters.rx_messages, "messages", counters.rx_bytes),
        ),
        ("retries", counters.retries.to_string()),
        (
            "NAKs",
            format!(
                "{} sent, {} received",
                counters.naks_sent, counters.naks_received
            ),
        ),
        ("RDMA drops", drops(&counters.drops)),
    ];
    let mut rows = who;
    rows.push(("GIDs", or_dash(stats.gids.join(" "))));
    rows.extend(learned);
    rows.push(("objects", objects(&stats.objects)));
    let reached = stats.regions.as_ref().filter(|_| stats.objects.mr > 0);
    rows.extend(reached.map(|counts| ("memory", regions(counts))));
    rows.extend(more);
    rows.extend(limits::waits(&stats.throttled, &stats.throttled_in));
    rows.extend(services(stats).map(|told| ("rdma_cm services", told)));
    let left_out = stats.log_lines_left_out;
    rows.extend((left_out > 0).then(|| ("log lines left out", left_out.to_string())));
    rows.extend(stats.fault.clone().map(|fault| ("fault", fault)));
    rows
}

fn ethernet(stats: &EthernetStats) -> [(&'static str, String); 4] {
    [
        ("Ethernet connected", yes_no(stats.connected)),
        (
            "Ethernet sent",
            messages(stats.tx_frames, "frames", stats.tx_bytes),
        ),
        (
            "Ethernet received",
            messages(stats.rx_frames, "frames", stats.rx_bytes),
        ),
        ("Ethernet drops", drops(&stats.drops)),
    ]
}

fn or_dash(text: String) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text
    }
}

fn objects(counts: &ObjectCounts) -> String {
    let ObjectCounts {
        uc,
        pd,
        mr,
        cq,
        qp,
        srq,
    } = counts;
    format!("uc {uc}, pd {pd}, mr {mr}, cq {cq}, qp {qp}, srq {srq}")
}

/// Listeners of `rdma_cm`, and the calls that are half open or were refused.
fn services(stats: &RdmaStats) -> Option<String> {
    let parts = [
        (u64::from(stats.half_open_calls), "calls half open"),
        (stats.refused_calls, "refused"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let calls: String = parts
        .map(|(count, what)| format!(", {count} {what}"))
        .collect();
    let is_used = stats.listeners > 0 || !calls.is_empty();
    is_used.then(|| format!("{}{calls}", stats.listeners))
}

/// Tells how memory regions are reached.
fn regions(counts: &RegionCounts) -> String {
    let by_address = counts.by_address.iter();
    let parts = [
        (counts.mapped, "in files".to_owned()),
        (counts.adopted, "adopted".to_owned()),
        (counts.adopted_in_part, "adopted in part".to_owned()),
    ];
    let parts = parts
        .into_iter()
        .chain(by_address.map(|(why, count)| (*count, format!("by address ({why})"))));
    let parts: Vec<_> = parts
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    or_dash(parts.join(", "))
}

fn messages(count: u64, what: &str, payload: u64) -> String {
    format!("{count} {what}, {}", bytes(payload))
}

/// Counts of drops by reason.
pub(crate) fn drops(drops: &BTreeMap<String, u64>) -> String {
    if drops.is_empty() {
        return "none".to_owned();
    }
    let drops: Vec<_> = drops
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    drops.join(", ")
}

#[cfg(test)]
mod tests;
