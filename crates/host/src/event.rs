//! What the owner of a host has to do for it.

use vrdma_switch::{PortId, UplinkId};
use vrdma_wire::Mtu;

/// Take events after each call with [`Host::poll_event`](crate::Host::poll_event). Between two calls there is at most
/// one for each uplink and each member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The uplink's descriptor is also to be watched for output, or no longer.
    Watch {
        /// The uplink.
        uplink: UplinkId,
        /// It is full: call [`Host::make_room`](crate::Host::make_room) when it takes frames again.
        writable: bool,
    },
    /// What the port of an adapter offers has changed.
    PathMtu {
        /// The adapter.
        port: PortId,
        /// Payload of its largest packet.
        mtu: Mtu,
    },
}
