//! Changes of an adapter's addresses, for the switch.

use vrdma_wire::Gid;

/// A change of the addresses at which an adapter is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidChange {
    /// The adapter is reached at this address from now on.
    Bound(Gid),
    /// The adapter is no longer reached at this address.
    Unbound(Gid),
    /// No address is left: the device was reset.
    Cleared,
}
