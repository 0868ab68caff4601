//! Connection management: the requests of librdmacm to the daemon.
//!
//! ```text
//!   librdmacm                                              vrdmad
//!      one connection a process ── SEQPACKET: request, reply ──► identifiers, ports, IB CM
//!      one pipe an event channel ◄── a byte for each event ───── events wait in the daemon
//! ```
//! A connection that begins with [`Greet`] is one of connection management: it has no memory and no queues, and its end
//! destroys all its identifiers. Requests are answered at once; an event reports the result of those that take time.
//!
//! An event channel is a pipe: the program polls the library's end. For each event that is queued the daemon writes one
//! byte ([`TOKEN`]); the library reads a byte and then asks for the event ([`GetEvent`]). [`Migrate`] moves events to
//! another channel but leaves their bytes behind, so there may be more bytes than events: the library then gets
//! `EAGAIN` and waits for the next byte.
//!
//! Identifiers are numbers that the daemon gives and never uses twice in a connection.

mod connect;
mod event;
mod id;
mod multicast;

pub use connect::{
    Accept, Connect, ConnectionParameters, Disconnect, Established, InitQp, Offer, PRIVATE_MAX,
    PrivateData, QpInit, Reject,
};
pub use event::{DatagramPeer, Event, EventKind, GetEvent};
pub use id::{
    Bind, Bound, CreateChannel, CreateId, DestroyChannel, DestroyId, Endpoint, IdReply, Listen,
    Migrate, ResolveAddress, ResolveRoute, Route, SetOption, family, option, qp_type, space,
};
pub use multicast::{Join, JoinReply, Leave};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::message::{CM_CODES, Call, Name};

/// The byte in the pipe that stands for an event.
pub const TOKEN: u8 = 1;

/// Numbers of the requests, counted from [`CM_CODES`].
macro_rules! cm_calls {
    ($($number:literal $request:ty => $reply:ty;)*) => {
        $(impl Call for $request {
            const CODE: u32 = CM_CODES + $number;
            type Reply = $reply;
        })*

        /// Every code, once.
        #[cfg(test)]
        const CODES: &[u32] = &[$(<$request>::CODE),*];
    };
}

cm_calls! {
    0 Greet => Greeting;
    1 CreateChannel => IdReply;
    2 DestroyChannel => crate::message::Done;
    3 CreateId => IdReply;
    4 DestroyId => crate::message::Done;
    5 Bind => Bound;
    6 ResolveAddress => crate::message::Done;
    7 ResolveRoute => crate::message::Done;
    8 Listen => Bound;
    9 Connect => Bound;
    10 Accept => crate::message::Done;
    11 Reject => crate::message::Done;
    12 Disconnect => crate::message::Done;
    13 Established => crate::message::Done;
    14 InitQp => QpInit;
    15 GetEvent => Event;
    16 Migrate => crate::message::Done;
    17 Join => JoinReply;
    18 Leave => crate::message::Done;
    19 SetOption => crate::message::Done;
    20 Offer => crate::message::Done;
}

/// First request of a connection. Errors: `EPROTONOSUPPORT` (version), `ENODEV` (no such adapter, or none at all),
/// `EBUSY` (too many clients).
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Greet {
    /// [`crate::VERSION`].
    pub version: u32,
    /// Zero.
    pub reserved: u32,
    /// The only adapter to use; empty for all that the user may open.
    pub adapter: Name,
}

/// Answer to [`Greet`].
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Greeting {
    /// The daemon's [`crate::VERSION`].
    pub version: u32,
    /// Number of adapters that can be used now.
    pub adapters: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Header, PACKET_MAX};

    #[test]
    fn codes_are_one_each_and_messages_fit() {
        for (index, code) in CODES.iter().enumerate() {
            assert_eq!(*code, CM_CODES + index as u32);
        }
        assert!(size_of::<Event>() + size_of::<Header>() <= PACKET_MAX);
        assert!(size_of::<Connect>() + size_of::<Header>() <= PACKET_MAX);
    }

    #[test]
    fn private_data_is_bounded() {
        let data = PrivateData::new(&[7; 3]).unwrap();
        assert_eq!(data.as_bytes(), [7; 3]);
        assert!(PrivateData::new(&[0; PRIVATE_MAX + 1]).is_none());
        let lying = PrivateData {
            length: 1000,
            ..data
        };
        assert_eq!(lying.as_bytes().len(), PRIVATE_MAX);
    }
}
