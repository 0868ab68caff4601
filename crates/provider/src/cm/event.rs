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
    /// Which channel.
    pub channel: u64,
}

/// `enum rdma_cm_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum EventKind {
    /// The way is known.
    AddressResolved = 0,
    /// It is not.
    AddressError = 1,
    /// The path is known.
    RouteResolved = 2,
    /// It is not.
    RouteError = 3,
    /// Somebody calls.
    ConnectRequest = 4,
    /// The peer accepts.
    ConnectResponse = 5,
    /// The connection could not be made.
    ConnectError = 6,
    /// The peer does not answer.
    Unreachable = 7,
    /// The peer says no.
    Rejected = 8,
    /// Messages may flow.
    Established = 9,
    /// The connection has ended.
    Disconnected = 10,
    /// The adapter is gone.
    DeviceRemoval = 11,
    /// A group was joined.
    MulticastJoin = 12,
    /// It was not, or was left.
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
    /// Whom it concerns; for a call a new identifier.
    pub id: u64,
    /// For a call the one that listens.
    pub listener: u64,
    /// For a group its number.
    pub group: u64,
    /// [`EventKind`].
    pub kind: u32,
    /// 0, a reason code, or a negative errno.
    pub status: i32,
    /// Where the identifier is now.
    pub route: Route,
    /// What the peer said.
    pub parameters: ConnectionParameters,
    /// Where datagrams go; the queue pair and key are in `parameters`.
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
    /// Index of the source.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Zero.
    pub reserved: u8,
}

impl EventKind {
    /// From the number in an event.
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
