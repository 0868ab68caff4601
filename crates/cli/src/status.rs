//! `vrdma status`

use std::time::Duration;

use vrdma_api::{AdapterKind, AdapterStats, Keeper, Status, UpgradeOutcome, paths};
use vrdma_api_client::Client;

use crate::failure::Failure;
use crate::report::Report;
use crate::table::{Column, facts, table};
use crate::{adapter, portgroup, uplink};

pub(crate) fn run(client: &Client) -> Result<Report, Failure> {
    let status: Status = client.get(paths::STATUS)?;
    Ok(Report::new(&status, text(&status)))
}

fn text(status: &Status) -> String {
    let mut parts = vec![daemon(status), shards(status)];
    parts.push(portgroup::list_text(&status.portgroups));
    if !status.uplinks.is_empty() {
        parts.push(uplink::list_text(&status.uplinks));
    }
    parts.push(adapters(status));
    parts.join("\n\n")
}

fn daemon(status: &Status) -> String {
    let config = status
        .config
        .as_ref()
        .map_or("none".to_owned(), |path| path.display().to_string());
    let mut known = vec![
        (
            "daemon",
            format!("vrdmad {}, process {}", status.version, status.pid),
        ),
        ("up", uptime(Duration::from_secs(status.uptime_seconds))),
        ("configuration", config),
        ("run folder", status.run_dir.display().to_string()),
    ];
    known.extend(
        status
            .keeper
            .as_ref()
            .map(|keeper| ("keeper", kept(keeper))),
    );
    known.push(("polling", status.poll.to_string()));
    let listens = |address| ("migration", format!("takes adapters at {address}"));
    known.extend(status.migration.map(listens));
    known.extend(status.ethernet_silent_ms.map(|ms| ("Ethernet", silent(ms))));
    facts(known)
}

/// Describes a keeper.
fn kept(keeper: &Keeper) -> String {
    let worker = match keeper.workers {
        1 => "the first worker".to_owned(),
        number => format!("worker {number}"),
    };
    let upgrade = keeper
        .last_upgrade
        .as_ref()
        .map(|upgrade| match upgrade.outcome {
            UpgradeOutcome::Done => ", upgraded".to_owned(),
            UpgradeOutcome::Refused => {
                format!(", the last upgrade was refused: {}", upgrade.reason)
            }
            UpgradeOutcome::WentBack => format!(", the last upgrade failed: {}", upgrade.reason),
        });
    let upgrade = upgrade.unwrap_or_default();
    format!("process {}, {worker}{upgrade}", keeper.pid)
}

fn shards(status: &Status) -> String {
    const COLUMNS: &[Column] = &[
        Column::Number("SHARD"),
        Column::Number("CORE"),
        Column::Number("ADAPTERS"),
        Column::Number("BUSY"),
        Column::Number("HANDED OVER"),
        Column::Text("STATE"),
    ];
    let rows = status.shards.iter().enumerate().map(|(number, shard)| {
        vec![
            number.to_string(),
            shard.core.map_or("any".to_owned(), |core| core.to_string()),
            shard.adapters.to_string(),
            format!("{} %", shard.busy_percent),
            shard.transfers.to_string(),
            shard.silent_ms.map_or("goes on".to_owned(), silent),
        ]
    });
    table(COLUMNS, rows.collect(), "no shards")
}

/// Tells for how long a thread has made no turn.
pub(crate) fn silent(ms: u64) -> String {
    format!("no turn for {} s", ms / 1000)
}

fn uptime(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn adapters(status: &Status) -> String {
    const COLUMNS: &[Column] = &[
        Column::Text("ADAPTER"),
        Column::Text("PORT GROUP"),
        Column::Text("MAC"),
        Column::Text("USERS"),
        Column::Text("RDMA"),
        Column::Text("ETHERNET"),
        Column::Number("QPS"),
        Column::Text("FAULT"),
    ];
    let rows = status.adapters.iter().map(|adapter| {
        let stats = status.stats.iter().find(|stats| stats.name == adapter.name);
        let connected = stats.is_some_and(|stats| stats.ethernet.connected);
        vec![
            adapter.name.to_string(),
            adapter.portgroup.to_string(),
            adapter.mac.to_string(),
            adapter::people(adapter),
            stats.map_or_else(String::new, rdma_state),
            ethernet_state(adapter.kind, connected).to_owned(),
            stats.map_or(0, |stats| stats.rdma.objects.qp).to_string(),
            stats
                .and_then(|stats| stats.rdma.fault.clone())
                .unwrap_or_default(),
        ]
    });
    table(COLUMNS, rows.collect(), adapter::NONE)
}

/// What is connected to the Ethernet port; for processes the daemon itself answers.
fn ethernet_state(kind: AdapterKind, connected: bool) -> &'static str {
    match (kind, connected) {
        (AdapterKind::Process, _) => "vrdmad",
        (_, true) => "connected",
        (_, false) => "no guest",
    }
}

/// The state of the device once a guest is connected, or how many processes have it open.
pub(crate) fn rdma_state(stats: &AdapterStats) -> String {
    let contexts = stats.rdma.objects.uc;
    match (stats.rdma.processes, stats.rdma.guest_connected) {
        (Some(0), _) => "no process".to_owned(),
        (Some(processes), _) => {
            format!(
                "{} {}",
                count(processes, "process", "es"),
                count(contexts, "context", "s")
            )
        }
        (None, true) => stats.rdma.state.clone(),
        // A TAP has no device.
        (None, false) if stats.rdma.state.is_empty() => "-".to_owned(),
        (None, false) => "no guest".to_owned(),
    }
}

fn count(number: u32, one: &str, more: &str) -> String {
    let ending = if number == 1 { "" } else { more };
    format!("{number} {one}{ending}")
}

#[cfg(test)]
mod tests;
