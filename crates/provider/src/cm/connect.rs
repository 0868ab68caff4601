//! Connection requests and the answers to them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::message::Name;

/// Most bytes of private data: those of an RTU.
pub const PRIVATE_MAX: usize = 224;

/// Private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PrivateData {
    /// Bytes that are in use.
    pub length: u32,
    /// Zero.
    pub reserved: u32,
    /// The bytes.
    pub bytes: [u8; PRIVATE_MAX],
}

impl Default for PrivateData {
    fn default() -> Self {
        Self {
            length: 0,
            reserved: 0,
            bytes: [0; PRIVATE_MAX],
        }
    }
}

impl PrivateData {
    /// Copies `data`; `None` if it is too long.
    pub fn new(data: &[u8]) -> Option<Self> {
        let mut private = Self {
            length: data.len() as u32,
            ..Self::default()
        };
        private.bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(private)
    }

    /// The bytes that are in use.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..PRIVATE_MAX.min(self.length as usize)]
    }
}

/// `struct rdma_conn_param`.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ConnectionParameters {
    /// Queue pair.
    pub qp_num: u32,
    /// Its key, for datagrams.
    pub qkey: u32,
    /// READs and atomics that this side answers at a time.
    pub responder_resources: u8,
    /// READs and atomics that this side has outstanding.
    pub initiator_depth: u8,
    /// Whether receives are counted (end-to-end flow control).
    pub flow_control: u8,
    /// Number of retries.
    pub retry_count: u8,
    /// Number of retries when the receiver is not ready.
    pub rnr_retry_count: u8,
    /// Whether the queue pair has a shared receive queue.
    pub srq: u8,
    /// Zero.
    pub reserved: [u8; 2],
    /// Private data.
    pub private: PrivateData,
}

/// Sends a connection request.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Connect {
    /// The identifier.
    pub id: u64,
    /// Parameters for the peer.
    pub parameters: ConnectionParameters,
}

/// Accepts a connection request; on the requesting side: says that it is ready.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Accept {
    /// The identifier.
    pub id: u64,
    /// Parameters for the peer; on the requesting side only the private data counts.
    pub parameters: ConnectionParameters,
}

/// Has the daemon answer all SIDR requests for a datagram service at one adapter with this queue pair, so that the
/// program needs no thread for them. To be sent before the identifier listens; SIDR requests at other adapters are
/// rejected. `ENODEV`: the identifier is not bound at that adapter.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Offer {
    /// The identifier.
    pub id: u64,
    /// Queue pair.
    pub qp_num: u32,
    /// Its Q_Key; 0 for that of the port space.
    pub qkey: u32,
    /// The adapter.
    pub adapter: Name,
}

/// Rejects a connection request.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Reject {
    /// The identifier.
    pub id: u64,
    /// Reason code of the REJ; 0 for "consumer reject".
    pub reason: u32,
    /// Zero.
    pub reserved: u32,
    /// Private data.
    pub private: PrivateData,
}

/// Ends a connection.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Disconnect {
    /// The identifier.
    pub id: u64,
}

/// Says that the queue pair has received a message.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Established {
    /// The identifier.
    pub id: u64,
}

/// Asks for the attributes that a queue pair needs for a state.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct InitQp {
    /// The identifier.
    pub id: u64,
    /// `enum ibv_qp_state`: INIT, RTR or RTS.
    pub state: u32,
    /// Zero.
    pub reserved: u32,
}

/// `struct ibv_qp_attr`, as far as the connection determines it.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QpInit {
    /// `enum ibv_qp_attr_mask`: which fields count.
    pub mask: u32,
    /// Access flags.
    pub access: u32,
    /// Q_Key.
    pub qkey: u32,
    /// QP number of the peer.
    pub dest_qp_num: u32,
    /// First PSN of the peer.
    pub rq_psn: u32,
    /// Our first PSN.
    pub sq_psn: u32,
    /// Flow label.
    pub flow_label: u32,
    /// Address of the peer.
    pub dgid: [u8; 16],
    /// Index of our GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Code of the path MTU.
    pub mtu: u8,
    /// READs and atomics that this side has outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics that this side answers at a time.
    pub max_dest_rd_atomic: u8,
    /// Code of the RNR timer.
    pub min_rnr_timer: u8,
    /// Code of the acknowledgement timeout.
    pub timeout: u8,
    /// Number of retries.
    pub retry_count: u8,
    /// Number of retries when the receiver is not ready.
    pub rnr_retry: u8,
    /// Zero.
    pub reserved: [u8; 2],
}
