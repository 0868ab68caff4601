//! Limits of a process adapter, of one client and of one user.

use vrdma_provider::QUEUES_MAX;
use vrdma_verbs::object::Limits;
use vrdma_verbs::{ATTACHMENTS_MAX, GROUP_QPS_MAX};
use vrdma_wire::Mtu;

/// Bytes of the longest message.
pub(super) const MESSAGE_BYTES: u32 = 1 << 30;

/// Bytes of the longest region: any that an address space has room for.
pub(super) const REGION_BYTES: u64 = u64::MAX;

/// Entries of the GID table.
pub(super) const GIDS: u32 = 16;

/// Most incoming and outgoing READs and atomics of a queue pair.
pub(super) const RD_ATOMIC: u8 = 16;

/// Sizes of the engine's tables: all clients of one adapter together. They grow only with use.
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

/// Most sessions of one shard.
pub(super) const SESSIONS: u32 = 4096;

/// Most sessions of one user: others are to find room.
pub(super) const SESSIONS_A_USER: u32 = 3072;

/// Descriptors of one session once it has opened an adapter: its socket, its memory and three that describe it, the
/// page and the event of its doorbells, its pipe for events and its page of grants.
pub(super) const SESSION_DESCRIPTORS: u64 = 9;

/// Mappings of one session: its doorbell page, and its page of grants.
pub(super) const SESSION_MAPPINGS: u64 = 2;

/// Most clients of one adapter.
pub(super) const CLIENTS: u32 = 1024;

/// Most protection domains of one client.
pub(super) const PDS: u32 = 1024;
/// Most memory regions and windows of one client: each costs some 100 bytes here.
pub(super) const MRS: u32 = 1 << 17;
/// Most completion queues of one client.
pub(super) const CQS: u32 = 4096;
/// Most queue pairs of one client.
pub(super) const QPS: u32 = QUEUES_MAX;
/// Most shared receive queues of one client.
pub(super) const SRQS: u32 = 1024;
/// Most completion channels of one client: each takes a descriptor of the daemon.
pub(super) const CHANNELS: u32 = 256;
/// Most regions of one client that are mapped files, each a mapping of the daemon's; further regions are reached by
/// their addresses, which is slower.
pub(super) const FILES: u32 = 1024;
/// Most such regions of all users.
pub(super) const FILES_OF_ALL: u64 = 1 << 15;
/// Most bytes of those files; they need room only in the daemon's address space.
pub(super) const FILE_BYTES: u64 = 1 << 41;
/// Most such bytes of all users: a quarter of an address space of 47 bits.
pub(super) const FILE_BYTES_OF_ALL: u64 = 1 << 45;
/// Most queue pairs in multicast groups: half of what one adapter has room for.
pub(super) const ATTACHMENTS: u64 = (ATTACHMENTS_MAX / 2) as u64;
/// Most queue pairs of one user in one group.
pub(super) const GROUP_QPS: usize = GROUP_QPS_MAX / 2;
/// Most bytes of ring memory of one client, which is charged to the daemon.
pub(super) const RING_BYTES: u64 = 1 << 30;

/// Most clients of connection management of one user.
pub(super) const CM_CLIENTS_A_USER: u64 = 3072;
/// Most identifiers of one client, including those of connection requests that wait for it.
pub(super) const IDENTIFIERS: u64 = 16384;
/// Most groups that one client has joined.
pub(super) const GROUPS: u64 = 1024;
/// Most unread events of one client while it may still cause more itself. Events that others cause are bounded by the
/// client's identifiers.
pub(super) const EVENTS: u64 = 8192;

/// Objects of one user, as a multiple of those of one client.
pub(super) const CLIENTS_WORTH: u64 = 4;

/// Objects of all users together, as a multiple of those of one user.
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
