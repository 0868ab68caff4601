//! What happened, for the owner.

use vrdma_wire::cm::{CommId, ConnectionType, PrivateData, RejectReason, ServiceId, SidrStatus};
use vrdma_wire::{Qkey, Qpn};

use crate::ip::IpCaller;
use crate::listeners::ListenerId;
use crate::terms::{Ends, Link, Side};

/// An event. After `Rejected`, `Unreachable`, `TimewaitOver`, `Resolved` and `Unresolved` the name is
/// forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Somebody calls: answer with `accept` or `reject`.
    Requested(CommId, ListenerId, Request),
    /// The peer has accepted: go on with `ready` or `reject`.
    Replied(CommId, Reply),
    /// The caller is ready.
    Established(CommId, PrivateData<224>),
    /// The peer said no, or gave up.
    Rejected(CommId, RejectReason, PrivateData<148>),
    /// The peer does not answer.
    Unreachable(CommId),
    /// The connection has ended; late packets may still arrive.
    Disconnected(CommId),
    /// No packet of the connection can arrive any more.
    TimewaitOver(CommId),
    /// Somebody asks for a datagram service: use `answer`.
    ResolveRequested(CommId, ListenerId, ResolveRequest),
    /// The datagram service was found.
    Resolved(CommId, Resolution),
    /// It was not; without a status nobody answered.
    Unresolved(CommId, Option<SidrStatus>, PrivateData<136>),
}

/// A call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// From where to where, as seen from here.
    pub ends: Ends,
    /// Which service.
    pub service: ServiceId,
    /// Kind of queue pairs.
    pub kind: ConnectionType,
    /// The caller's queue pair.
    pub side: Side,
    /// The path.
    pub link: Link,
    /// Who calls, if the service is one of IP.
    pub caller: Option<IpCaller>,
    /// Private data, that of the user in front.
    pub private: PrivateData<92>,
}

/// The peer's yes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The peer's queue pair.
    pub side: Side,
    /// Private data.
    pub private: PrivateData<196>,
}

/// A question for a datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResolveRequest {
    /// From where to where, as seen from here.
    pub ends: Ends,
    /// Which service.
    pub service: ServiceId,
    /// Who asks, if the service is one of IP.
    pub caller: Option<IpCaller>,
    /// Private data, that of the user in front.
    pub private: PrivateData<216>,
}

/// A datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// Its queue pair.
    pub qpn: Qpn,
    /// Key of that.
    pub qkey: Qkey,
    /// Private data.
    pub private: PrivateData<136>,
}
