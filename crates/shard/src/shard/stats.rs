//! A device's state and counters in the words of the control API.

use std::collections::BTreeMap;

use vrdma_api::{ObjectCounts, RdmaCounters, RdmaStats, RegionCounts};
use vrdma_process::{OnDemand, Process};
use vrdma_provider::message::Adoption;
use vrdma_pvrdma::DeviceState;
use vrdma_switch::{NoRoute, Untaken};
use vrdma_verbs::counters::{Counters, Counts, Drops, Traffic};

use super::adapter::Adapter;
use crate::vm::Vm;

pub(super) fn stats(adapter: &Adapter) -> RdmaStats {
    match adapter {
        Adapter::Vm(vm) => device_stats(vm),
        Adapter::Process { process, .. } => process_stats(process),
    }
}

/// Returns state and counters; an adapter that nobody has used has done nothing.
fn process_stats(adapter: &OnDemand) -> RdmaStats {
    let made = adapter.get().map(made_stats);
    made.unwrap_or_else(|| RdmaStats {
        processes: Some(0),
        regions: Some(RegionCounts::default()),
        state: "active".to_owned(),
        gids: adapter
            .spec()
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect(),
        ..RdmaStats::default()
    })
}

fn made_stats(process: &Process) -> RdmaStats {
    let hca = process.hca();
    let gids = (0..hca.limits().gids).filter_map(|index| hca.gid(index as u8));
    RdmaStats {
        guest_connected: process.clients() > 0,
        processes: Some(process.processes()),
        state: "active".to_owned(),
        gids: gids.map(|gid| gid.to_string()).collect(),
        objects: object_counts(&hca.counts(), process.clients()),
        regions: Some(region_counts(&process.regions())),
        counters: counters(hca.counters()),
        ..RdmaStats::default()
    }
}

fn device_stats(vm: &Vm) -> RdmaStats {
    let device = vm.snapshot();
    RdmaStats {
        guest_connected: vm.connection().is_some(),
        state: state_name(device.state).to_owned(),
        driver_version: device.driver_version,
        gids: device.gids.iter().map(|(_, gid)| gid.to_string()).collect(),
        objects: object_counts(&device.counts, device.contexts),
        counters: counters(&device.counters),
        log_lines_left_out: device.log_lines_left_out + vm.log_lines_left_out(),
        fault: vm.fault().map(str::to_owned),
        ..RdmaStats::default()
    }
}

fn state_name(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Reset => "reset",
        DeviceState::Configured => "configured",
        DeviceState::Active => "active",
        DeviceState::Failed => "failed",
        DeviceState::Frozen => "frozen",
    }
}

fn object_counts(counts: &Counts, contexts: u32) -> ObjectCounts {
    ObjectCounts {
        uc: contexts,
        pd: counts.pds,
        mr: counts.mrs,
        cq: counts.cqs,
        qp: counts.qps,
        srq: counts.srqs,
    }
}

fn region_counts(counts: &vrdma_process::RegionCounts) -> RegionCounts {
    let name = |why: Adoption| match why {
        Adoption::Adopted => "beyond a quota",
        why => why.name(),
    };
    let by_address = counts.by_address();
    RegionCounts {
        mapped: counts.mapped,
        adopted: counts.adopted,
        adopted_in_part: counts.adopted_in_part,
        by_address: by_address
            .map(|(why, count)| (name(why).to_owned(), count))
            .collect(),
    }
}

fn counters(counters: &Counters) -> RdmaCounters {
    RdmaCounters {
        tx_messages: messages(&counters.sent),
        tx_bytes: counters.sent.bytes,
        rx_messages: messages(&counters.received),
        rx_bytes: counters.received.bytes,
        retries: counters.retries,
        naks_sent: counters.naks_sent + counters.sequence_naks_sent + counters.rnr_naks_sent,
        naks_received: counters.naks_received
            + counters.sequence_naks_received
            + counters.rnr_naks_received,
        drops: drops(&counters.drops),
    }
}

fn messages(traffic: &Traffic) -> u64 {
    traffic.sends + traffic.writes + traffic.reads + traffic.atomics + traffic.datagrams
}

/// Returns why the fabric dropped a unit, in the words that uplinks use, too.
pub(super) fn no_route(reason: NoRoute) -> &'static str {
    match reason {
        NoRoute::Detached => "detached",
        NoRoute::SourceNotBound | NoRoute::Spoofed => "spoofed-gid",
        NoRoute::Unknown => "unknown-adapter",
        NoRoute::Isolated => "isolated",
    }
}

/// Returns why a management datagram was not taken, in the words for what engines drop.
pub(super) fn untaken(reason: Untaken) -> &'static str {
    match reason {
        Untaken::UnknownQp => "unknown-qp",
        Untaken::WrongQkey => "wrong-qkey",
        Untaken::WrongPkey => "wrong-pkey",
        Untaken::Malformed => "malformed",
        Untaken::NoRoom => "management-overrun",
    }
}

fn drops(drops: &Drops) -> BTreeMap<String, u64> {
    let dropped = by_word(drops).into_iter();
    dropped
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| (reason.to_owned(), count))
        .collect()
}

fn by_word(drops: &Drops) -> [(&'static str, u64); 12] {
    [
        ("unknown-qp", drops.unknown_qp),
        ("wrong-state", drops.wrong_state),
        ("wrong-peer", drops.wrong_peer),
        ("unbound-gid", drops.unbound_gid),
        ("wrong-qkey", drops.wrong_qkey),
        ("malformed", drops.malformed),
        ("no-receive", drops.no_receive),
        ("no-access", drops.no_access),
        ("wrong-pkey", drops.wrong_pkey),
        ("out-of-sequence", drops.out_of_sequence),
        ("source-fault", drops.source_fault),
        ("stale-response", drops.stale_response),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_row_in_the_guide() {
        let page = include_str!("../../../../docs/troubleshooting.md");
        let (_, table) = page.split_once("Adapters, `RDMA drops`").unwrap();
        let table = table.split("\n\n").nth(1).unwrap();
        let engine = by_word(&Drops::default());
        let words = engine.into_iter().map(|(word, _)| word);
        let words = words.chain(NoRoute::ALL.map(no_route));
        let words = words.chain(Untaken::ALL.map(untaken));
        for word in words.chain(["over-limit"]) {
            assert!(table.contains(&format!("`{word}`")), "{word}");
        }
    }
}
