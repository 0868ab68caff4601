//! How much an adapter of processes, one client and one user may take.

use vrdma_provider::QUEUES_MAX;
use vrdma_verbs::object::Limits;
use vrdma_wire::Mtu;

use super::account::Kind;

/// Longest message.
pub(super) const MESSAGE_BYTES: u32 = 1 << 30;

/// Longest region: any that an address space has room for.
pub(super) const REGION_BYTES: u64 = u64::MAX;

/// Entries of the GID table.
pub(super) const GIDS: u32 = 16;

/// Incoming and outgoing READs and atomics of a queue pair.
pub(super) const RD_ATOMIC: u8 = 16;

/// The engine's tables: all clients of one adapter together. They grow with use only.
pub(super) const ENGINE: Limits = Limits {
    pds: 1 << 16,
    mrs: 1 << 20,
    cqs: 1 << 16,
    qps: 1 << 16,
    srqs: 1 << 14,
    gids: GIDS,
    rd_atomic: RD_ATOMIC,
    message_bytes: MESSAGE_BYTES,
    port_mtu: Mtu::B4096,
};

/// Clients of one adapter.
pub(super) const CLIENTS: u32 = 1024;

/// Protection domains of one client.
pub(super) const PDS: u32 = 1024;
/// Memory regions and windows of one client: each costs some 100 bytes here.
pub(super) const MRS: u32 = 1 << 17;
/// Completion queues of one client.
pub(super) const CQS: u32 = 4096;
/// Queue pairs of one client.
pub(super) const QPS: u32 = QUEUES_MAX;
/// Shared receive queues of one client.
pub(super) const SRQS: u32 = 1024;
/// Completion channels of one client: a descriptor of ours each.
pub(super) const CHANNELS: u32 = 256;
/// Regions of one client that are mapped files, each a mapping of ours; more are reached by their
/// addresses, which is slower.
const FILES: u32 = 1024;
/// Bytes of ring memory of one client, which is charged to the daemon.
const RING_BYTES: u64 = 1 << 30;

/// How many clients' worth of objects one user may have. A process has 65530 mappings at most, unless
/// the machine is told otherwise: two for a queue pair, one each for the other queues and for files.
const CLIENTS_WORTH: u64 = 4;

/// How much of a kind one client may have, and all clients of its user together.
pub(super) fn most(kind: Kind) -> (u64, u64) {
    let client = match kind {
        Kind::Pd => PDS.into(),
        Kind::Mr => MRS.into(),
        Kind::File => FILES.into(),
        Kind::Cq => CQS.into(),
        Kind::Qp => QPS.into(),
        Kind::Srq => SRQS.into(),
        Kind::RingBytes => RING_BYTES,
    };
    (client, client * CLIENTS_WORTH)
}

/// Whether one more fits.
pub(super) fn fits(used: u32, most: u32) -> bool {
    used < most
}

#[cfg(test)]
mod tests {
    use vrdma_provider::daemon::CqPlan;

    use super::*;

    #[test]
    fn all_completion_queues_may_have_as_many_entries_as_most_programs_ask_for() {
        let plan = CqPlan::new(1024).expect("within the limits");
        assert!(u64::from(plan.bytes) * u64::from(CQS) <= RING_BYTES);
    }
}
