//! Events for the owner.

use vrdma_wire::cm::{CommId, ConnectionType, PrivateData, RejectReason, ServiceId, SidrStatus};
use vrdma_wire::{Qkey, Qpn};

use crate::ip::IpCaller;
use crate::listeners::ListenerId;
use crate::terms::{Ends, Link, Side};

/// An event. After `Rejected`, `Unreachable`, `TimewaitOver`, `Resolved` and `Unresolved` the name is
/// forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer calls: answer with `accept` or `reject`.
    Requested(CommId, ListenerId, Request),
    /// The peer has accepted: go on with `ready` or `reject`.
    Replied(CommId, Reply),
    /// The caller is ready.
    Established(CommId, PrivateData<224>),
    /// The peer refused, or gave up.
    Rejected(CommId, RejectReason, PrivateData<148>),
    /// The peer does not answer.
    Unreachable(CommId),
    /// The connection has ended; late packets may still arrive.
    Disconnected(CommId),
    /// No packet of the connection can arrive any more.
    TimewaitOver(CommId),
    /// A peer asks for a datagram service: use `answer`.
    ResolveRequested(CommId, ListenerId, ResolveRequest),
    /// The datagram service was found.
    Resolved(CommId, Resolution),
    /// The datagram service was not found; without a status there was no answer.
    Unresolved(CommId, Option<SidrStatus>, PrivateData<136>),
}

/// An incoming call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Addresses of this side and of the caller.
    pub ends: Ends,
    /// Called service.
    pub service: ServiceId,
    /// Kind of queue pairs.
    pub kind: ConnectionType,
    /// The caller's queue pair.
    pub side: Side,
    /// The path.
    pub link: Link,
    /// Addresses and port of the caller, if the service is one of IP.
    pub caller: Option<IpCaller>,
    /// Private data; the user's bytes come first.
    pub private: PrivateData<92>,
}

/// A peer's acceptance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The peer's queue pair.
    pub side: Side,
    /// Private data.
    pub private: PrivateData<196>,
}

/// A peer's question for a datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResolveRequest {
    /// Addresses of this side and of the peer.
    pub ends: Ends,
    /// Service asked for.
    pub service: ServiceId,
    /// Addresses and port of the asking peer, if the service is one of IP.
    pub caller: Option<IpCaller>,
    /// Private data; the user's bytes come first.
    pub private: PrivateData<216>,
}

/// A datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// Its queue pair.
    pub qpn: Qpn,
    /// Q_Key of the queue pair.
    pub qkey: Qkey,
    /// Private data.
    pub private: PrivateData<136>,
}
