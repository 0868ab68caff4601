//! How much an adapter of processes, one client and one user may take.

use vrdma_provider::QUEUES_MAX;
use vrdma_verbs::object::Limits;
use vrdma_verbs::{ATTACHMENTS_MAX, GROUP_QPS_MAX};
use vrdma_wire::Mtu;

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

/// Sessions of one shard.
pub(super) const SESSIONS: u32 = 4096;

/// Sessions of one user: the others shall find room.
pub(super) const SESSIONS_A_USER: u32 = 3072;

/// Descriptors of one session once it has opened an adapter: its socket, its memory and three that tell of it, the
/// page and the event of its doorbells, its pipe for events and its page of grants.
pub(super) const SESSION_DESCRIPTORS: u64 = 9;

/// Mappings of one session: its page of doorbells, and that of its grants.
pub(super) const SESSION_MAPPINGS: u64 = 2;

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
pub(super) const FILES: u32 = 1024;
/// The same of all users.
pub(super) const FILES_OF_ALL: u64 = 1 << 15;
/// Bytes of those files, which need room in the daemon's address space only.
pub(super) const FILE_BYTES: u64 = 1 << 41;
/// The same of all users: a quarter of an address space of 47 bits.
pub(super) const FILE_BYTES_OF_ALL: u64 = 1 << 45;
/// Queue pairs in multicast groups: half of what one adapter has room for.
pub(super) const ATTACHMENTS: u64 = (ATTACHMENTS_MAX / 2) as u64;
/// The same of one user in one group.
pub(super) const GROUP_QPS: usize = GROUP_QPS_MAX / 2;
/// Bytes of ring memory of one client, which is charged to the daemon.
pub(super) const RING_BYTES: u64 = 1 << 30;

/// Clients of connection management of one user.
pub(super) const CM_CLIENTS_A_USER: u64 = 3072;
/// Identifiers of one client, those of calls that wait for it among them.
pub(super) const IDENTIFIERS: u64 = 16384;
/// Groups that one client has joined.
pub(super) const GROUPS: u64 = 1024;
/// Events that one client may have unread and cause more by itself. Those that others cause are bounded by its
/// identifiers.
pub(super) const EVENTS: u64 = 8192;

/// How many clients' worth of objects one user may have.
pub(super) const CLIENTS_WORTH: u64 = 4;

/// How many users' worth all users together may have.
pub(super) const USERS_WORTH: u64 = 4;

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
        let plan = CqPlan::new(1024, true).expect("within the limits");
        assert!(u64::from(plan.bytes) * u64::from(CQS) <= RING_BYTES);
    }
}
