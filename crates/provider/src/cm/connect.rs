//! Calls and answers.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::message::Name;

/// Bytes of private data at most, those of an RTU.
pub const PRIVATE_MAX: usize = 224;

/// Private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PrivateData {
    /// Bytes that mean something.
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
    /// `None` if it is too long.
    pub fn new(data: &[u8]) -> Option<Self> {
        let mut private = Self {
            length: data.len() as u32,
            ..Self::default()
        };
        private.bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(private)
    }

    /// The bytes that mean something.
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
    /// READs and atomics answered at a time.
    pub responder_resources: u8,
    /// READs and atomics outstanding.
    pub initiator_depth: u8,
    /// Receives are counted.
    pub flow_control: u8,
    /// How often to repeat.
    pub retry_count: u8,
    /// How often to repeat when the receiver is not ready.
    pub rnr_retry_count: u8,
    /// The queue pair has a shared receive queue.
    pub srq: u8,
    /// Zero.
    pub reserved: [u8; 2],
    /// Private data.
    pub private: PrivateData,
}

/// Calls.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Connect {
    /// Which.
    pub id: u64,
    /// What is said.
    pub parameters: ConnectionParameters,
}

/// Answers a call with yes; for the caller itself: says that it is ready.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Accept {
    /// Which.
    pub id: u64,
    /// What is said; for a caller only the private data counts.
    pub parameters: ConnectionParameters,
}

/// Answers every question for a datagram service at one adapter with this queue pair, without its
/// program: whoever may be asked at any time has no thread that answers. Before it listens; questions at
/// other adapters are answered with no. `ENODEV`: it is not bound there.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Offer {
    /// Which.
    pub id: u64,
    /// Queue pair.
    pub qp_num: u32,
    /// Its key; 0 for that of the port space.
    pub qkey: u32,
    /// The adapter.
    pub adapter: Name,
}

/// Answers with no.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Reject {
    /// Which.
    pub id: u64,
    /// Reason code of the REJ; 0 for "the user".
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
    /// Which.
    pub id: u64,
}

/// The queue pair has received a message.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Established {
    /// Which.
    pub id: u64,
}

/// Asks what a queue pair is to be set to for a state.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct InitQp {
    /// Which.
    pub id: u64,
    /// `enum ibv_qp_state`: INIT, RTR or RTS.
    pub state: u32,
    /// Zero.
    pub reserved: u32,
}

/// `struct ibv_qp_attr`, as far as the connection decides it.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QpInit {
    /// `enum ibv_qp_attr_mask`: which fields count.
    pub mask: u32,
    /// Access flags.
    pub access: u32,
    /// Key.
    pub qkey: u32,
    /// Peer.
    pub dest_qp_num: u32,
    /// First PSN of the peer.
    pub rq_psn: u32,
    /// First PSN of ours.
    pub sq_psn: u32,
    /// Flow label.
    pub flow_label: u32,
    /// Address of the peer.
    pub dgid: [u8; 16],
    /// Index of ours.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Code of the path MTU.
    pub mtu: u8,
    /// READs and atomics outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics answered at a time.
    pub max_dest_rd_atomic: u8,
    /// Code of the RNR timer.
    pub min_rnr_timer: u8,
    /// Code of the acknowledgement timeout.
    pub timeout: u8,
    /// How often to repeat.
    pub retry_count: u8,
    /// How often when the receiver is not ready.
    pub rnr_retry: u8,
    /// Zero.
    pub reserved: [u8; 2],
}
