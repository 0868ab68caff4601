//! What an adapter tells the switch of its addresses.

use vrdma_wire::Gid;

/// A change of the addresses at which an adapter is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidChange {
    /// Reached there from now on.
    Bound(Gid),
    /// Not any more.
    Unbound(Gid),
    /// No address is left: the device was reset.
    Cleared,
}
