//! The parameters of the owner's commands.

use vrdma_wire::cm::{ConnectionType, PrivateData, ServiceId, SidrStatus};
use vrdma_wire::{Bits, FlowLabel, Gid, Mtu, Psn, Qkey, Qpn, TrafficClass};

/// The two addresses of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ends {
    /// Address of this adapter.
    pub local: Gid,
    /// Address of the peer.
    pub remote: Gid,
}

/// One side's queue pair, as messages describe it (IBTA 12.6.5, 12.6.8).
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
    /// Whether it counts receives.
    pub flow_control: bool,
    /// Number of times that the other side shall retry when this one is not ready; 7 means for ever.
    pub rnr_retry: Bits<3>,
    /// Whether it takes receives from a shared queue.
    pub srq: bool,
}

/// Parameters that the active side decides for both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// Path MTU.
    pub mtu: Mtu,
    /// Wait for an acknowledgement, as a timeout code.
    pub ack_timeout: Bits<5>,
    /// Number of times that a queue pair repeats what was not acknowledged.
    pub retry_count: Bits<3>,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Hop limit.
    pub hop_limit: u8,
}

/// A connection that the owner asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Addresses of this side and of the peer.
    pub ends: Ends,
    /// Service of the peer.
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

/// The owner's acceptance of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acceptance {
    /// The answering queue pair.
    pub side: Side,
    /// Private data.
    pub private: PrivateData<196>,
}

/// A datagram service whose queue pair the owner asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolve {
    /// Addresses of this side and of the peer.
    pub ends: Ends,
    /// Service of the peer.
    pub service: ServiceId,
    /// Private data; for a service of IP made by [`IpCaller::resolve_data`](crate::IpCaller::resolve_data).
    pub private: PrivateData<216>,
}

/// The owner's answer to the peer's question for a datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrAnswer {
    /// Outcome; the queue pair is valid only with [`SidrStatus::OK`].
    pub status: SidrStatus,
    /// The service's queue pair.
    pub qpn: Qpn,
    /// Q_Key of the queue pair.
    pub qkey: Qkey,
    /// Private data.
    pub private: PrivateData<136>,
}

/// Reason why a command was not carried out; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// No such connection or listener, or it has ended.
    #[error("there is no such connection")]
    Unknown,
    /// The connection is in a state in which the command has no meaning.
    #[error("the connection is not in a state that allows this")]
    State,
    /// Another listener is there already.
    #[error("the service is taken by another listener")]
    Taken,
    /// [`MAX_CONNECTIONS`](crate::MAX_CONNECTIONS) or [`MAX_LISTENERS`](crate::MAX_LISTENERS) is reached.
    #[error("the adapter's communication manager is full")]
    Full,
}
