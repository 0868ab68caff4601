//! Events.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::connect::ConnectionParameters;
use super::id::Route;

/// Asks for the oldest event of a channel; `EAGAIN` if there is none.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct GetEvent {
    /// The channel.
    pub channel: u64,
}

/// `enum rdma_cm_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum EventKind {
    /// The address was resolved.
    AddressResolved = 0,
    /// The address could not be resolved.
    AddressError = 1,
    /// The path was found.
    RouteResolved = 2,
    /// The path was not found.
    RouteError = 3,
    /// A peer asks for a connection.
    ConnectRequest = 4,
    /// The peer has accepted.
    ConnectResponse = 5,
    /// The connection could not be made.
    ConnectError = 6,
    /// The peer does not answer.
    Unreachable = 7,
    /// The peer has rejected.
    Rejected = 8,
    /// The connection is up: messages may flow.
    Established = 9,
    /// The connection has ended.
    Disconnected = 10,
    /// The adapter is gone.
    DeviceRemoval = 11,
    /// A group was joined.
    MulticastJoin = 12,
    /// A group could not be joined, or was left.
    MulticastError = 13,
    /// The adapter's address has changed.
    AddressChange = 14,
    /// The queue pair may be used again.
    TimewaitExit = 15,
}

/// An event.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Event {
    /// The identifier; for a connection request, a new one.
    pub id: u64,
    /// The listening identifier, for a connection request.
    pub listener: u64,
    /// The number of the group, for an event of a group.
    pub group: u64,
    /// [`EventKind`].
    pub kind: u32,
    /// 0, a reason code, or a negative errno.
    pub status: i32,
    /// Addresses of the identifier now.
    pub route: Route,
    /// Parameters that the peer sent.
    pub parameters: ConnectionParameters,
    /// Destination of datagrams; the queue pair and key are in `parameters`.
    pub peer: DatagramPeer,
}

/// Address handle of a datagram service or a group.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DatagramPeer {
    /// Destination.
    pub dgid: [u8; 16],
    /// Flow label.
    pub flow_label: u32,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Zero.
    pub reserved: u8,
}

impl EventKind {
    /// Finds a kind by its number in an event.
    pub const fn from_number(number: u32) -> Option<Self> {
        use EventKind as E;
        const ALL: [EventKind; 16] = [
            E::AddressResolved,
            E::AddressError,
            E::RouteResolved,
            E::RouteError,
            E::ConnectRequest,
            E::ConnectResponse,
            E::ConnectError,
            E::Unreachable,
            E::Rejected,
            E::Established,
            E::Disconnected,
            E::DeviceRemoval,
            E::MulticastJoin,
            E::MulticastError,
            E::AddressChange,
            E::TimewaitExit,
        ];
        if (number as usize) < ALL.len() {
            Some(ALL[number as usize])
        } else {
            None
        }
    }
}
