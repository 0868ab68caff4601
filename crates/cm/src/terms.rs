//! What the owner says in commands.

use vrdma_wire::cm::{ConnectionType, PrivateData, ServiceId, SidrStatus};
use vrdma_wire::{Bits, FlowLabel, Gid, Mtu, Psn, Qkey, Qpn, TrafficClass};

/// The two addresses of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ends {
    /// Of this adapter.
    pub local: Gid,
    /// Of the peer.
    pub remote: Gid,
}

/// What one side says of its queue pair (IBTA 12.6.5, 12.6.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Side {
    /// Its number.
    pub qpn: Qpn,
    /// First PSN that it expects: where the other side's send queue begins.
    pub psn: Psn,
    /// READs and atomics that it will answer at a time.
    pub responder_resources: u8,
    /// READs and atomics that it will have outstanding.
    pub initiator_depth: u8,
    /// It counts receives.
    pub flow_control: bool,
    /// How often the other side shall retry when this one is not ready; 7: for ever.
    pub rnr_retry: Bits<3>,
    /// It takes receives from a shared queue.
    pub srq: bool,
}

/// What the active side decides for both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// Path MTU.
    pub mtu: Mtu,
    /// How long to wait for an acknowledgement, as a timeout code.
    pub ack_timeout: Bits<5>,
    /// How often a queue pair repeats what was not acknowledged.
    pub retry_count: Bits<3>,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Hop limit.
    pub hop_limit: u8,
}

/// A connection that the owner wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// From where to where.
    pub ends: Ends,
    /// Which service of the peer.
    pub service: ServiceId,
    /// Kind of queue pairs.
    pub kind: ConnectionType,
    /// The caller's queue pair.
    pub side: Side,
    /// The path.
    pub link: Link,
    /// Private data; for a service of IP made by [`IpCaller::connect_data`](crate::IpCaller::connect_data).
    pub private: PrivateData<92>,
}

/// The owner's yes to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acceptance {
    /// The queue pair that answers.
    pub side: Side,
    /// Private data.
    pub private: PrivateData<196>,
}

/// A datagram service that the owner wants to know the queue pair of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolve {
    /// From where to where.
    pub ends: Ends,
    /// Which service of the peer.
    pub service: ServiceId,
    /// Private data; for a service of IP made by [`IpCaller::resolve_data`](crate::IpCaller::resolve_data).
    pub private: PrivateData<216>,
}

/// The owner's answer to the peer's question for a datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrAnswer {
    /// How it went; the queue pair counts only with [`SidrStatus::OK`].
    pub status: SidrStatus,
    /// The service's queue pair.
    pub qpn: Qpn,
    /// Its key.
    pub qkey: Qkey,
    /// Private data.
    pub private: PrivateData<136>,
}

/// Why a command was not carried out; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// No such connection or listener, or it has ended.
    #[error("there is no such connection")]
    Unknown,
    /// The connection is in a state in which the command means nothing.
    #[error("the connection is not in a state that allows this")]
    State,
    /// Somebody listens there already.
    #[error("the service is taken by another listener")]
    Taken,
    /// [`MAX_CONNECTIONS`](crate::MAX_CONNECTIONS) or
    /// [`MAX_LISTENERS`](crate::MAX_LISTENERS) reached.
    #[error("the adapter's communication manager is full")]
    Full,
}
