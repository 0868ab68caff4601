//! Attributes of queue pairs. Their numbering is that of `ibv_modify_qp`, which the PVRDMA command channel and the
//! process front end share.

use bitflags::bitflags;
use vrdma_wire::{Gid, Mac, Mtu, Psn, Qkey, Qpn};

bitflags! {
    /// Access rights on memory and on a queue pair (IBTA 10.6.3).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Access: u32 {
        /// The owner's adapter may write (receives, READ results).
        const LOCAL_WRITE = 1;
        /// Peers may write.
        const REMOTE_WRITE = 2;
        /// Peers may read.
        const REMOTE_READ = 4;
        /// Peers may do atomics.
        const REMOTE_ATOMIC = 8;
        /// Memory windows may be bound to the memory.
        const BIND_WINDOW = 16;
    }

    /// The attributes that a modify names: `enum ib_qp_attr_mask`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct AttrMask: u32 {
        /// `state`
        const STATE = 1 << 0;
        /// `current_state`
        const CUR_STATE = 1 << 1;
        /// `sqd_event`
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// `access`
        const ACCESS_FLAGS = 1 << 3;
        /// `pkey_index`
        const PKEY_INDEX = 1 << 4;
        /// `port`
        const PORT = 1 << 5;
        /// `qkey`
        const QKEY = 1 << 6;
        /// `address`
        const AV = 1 << 7;
        /// `path_mtu`
        const PATH_MTU = 1 << 8;
        /// `timeout`
        const TIMEOUT = 1 << 9;
        /// `retry_count`
        const RETRY_CNT = 1 << 10;
        /// `rnr_retry`
        const RNR_RETRY = 1 << 11;
        /// `rq_psn`
        const RQ_PSN = 1 << 12;
        /// `max_rd_atomic`
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// Alternate path: RoCE has none, always refused.
        const ALT_PATH = 1 << 14;
        /// `min_rnr_timer`
        const MIN_RNR_TIMER = 1 << 15;
        /// `sq_psn`
        const SQ_PSN = 1 << 16;
        /// `max_dest_rd_atomic`
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// `path_migration`
        const PATH_MIG_STATE = 1 << 18;
        /// Resizing of the queues: always refused.
        const CAP = 1 << 19;
        /// `dest_qpn`
        const DEST_QPN = 1 << 20;
    }
}

/// State of a queue pair (IBTA 10.3.1), with the verbs' codes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum QpState {
    /// Fresh or reset.
    #[default]
    Reset = 0,
    /// Receives may be posted.
    Init = 1,
    /// Receives.
    Rtr = 2,
    /// Receives and sends.
    Rts = 3,
    /// Sends no new requests.
    Sqd = 4,
    /// The send queue failed (datagram QPs only).
    Sqe = 5,
    /// Flushes everything.
    Err = 6,
}

impl QpState {
    /// Returns the state with a verbs' code.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Reset,
            1 => Self::Init,
            2 => Self::Rtr,
            3 => Self::Rts,
            4 => Self::Sqd,
            5 => Self::Sqe,
            6 => Self::Err,
            _ => return None,
        })
    }
}

/// State of path migration, with the verbs' codes (IBTA 17.2.8). A RoCE port has no alternate path, so the state is
/// always `Migrated`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum PathMigration {
    /// On its only path.
    #[default]
    Migrated = 0,
    /// Ready for a new alternate path.
    Rearm = 1,
    /// Has an alternate path.
    Armed = 2,
}

impl PathMigration {
    /// Returns the state with a verbs' code.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Migrated,
            1 => Self::Rearm,
            2 => Self::Armed,
            _ => return None,
        })
    }
}

/// Destination of a connection's packets, and the local GID that they come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Address {
    /// Destination.
    pub dgid: Gid,
    /// Index of the local GID in the GID table.
    pub sgid_index: u8,
    /// IP hop limit.
    pub hop_limit: u8,
    /// IP traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Service level.
    pub sl: u8,
    /// Port, 1.
    pub port: u8,
    /// Destination's Ethernet address as the guest resolved it, zero if it did not. It is used for answers to queries
    /// and for frames on a wire, never to decide which adapter a message is for.
    pub dmac: [u8; 6],
}

impl Address {
    /// Returns the destination's Ethernet address, unless it is zero.
    pub fn dmac(&self) -> Option<Mac> {
        (self.dmac != [0; 6]).then_some(Mac(self.dmac))
    }
}

/// The attributes of a queue pair; a mask says which of them a modify names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpAttr {
    /// Target state.
    pub state: QpState,
    /// The state that the caller believes the QP to be in; in answers to queries, the state.
    pub current_state: QpState,
    /// Raise SQ_DRAINED when SQD is reached.
    pub sqd_event: bool,
    /// Access rights of the peer.
    pub access: Access,
    /// Partition key entry, 0.
    pub pkey_index: u16,
    /// Port, 1.
    pub port: u8,
    /// Datagram key.
    pub qkey: Qkey,
    /// Path of a connection.
    pub address: Address,
    /// Path MTU: most payload of one packet.
    pub path_mtu: Mtu,
    /// Retry time-out, 4.096 us * 2^n, 0 is for ever.
    pub timeout: u8,
    /// Retries of a lost request, 0 to 7.
    pub retry_count: u8,
    /// Retries of an unready receiver, 0 to 6; 7 is for ever.
    pub rnr_retry: u8,
    /// Expected first PSN of the peer.
    pub rq_psn: Psn,
    /// First PSN that this end sends.
    pub sq_psn: Psn,
    /// READs and atomics that this end may have outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// RNR timer code that the peer is asked to use, 0 to 31 (IBTA table 45).
    pub min_rnr_timer: u8,
    /// The peer's QP.
    pub dest_qpn: Qpn,
    /// Path migration: [`PathMigration::Migrated`] is the only value allowed.
    pub path_migration: PathMigration,
    /// In answers to queries only: SQD is reached, but earlier messages are not done.
    pub sq_draining: bool,
}
