//! Which adapters a client may use: of those that its user may use, the one that it named, or all.

use vrdma_provider::message::Name;
use vrdma_switch::PortId;

use crate::admission::Usable;

/// See the module.
pub(super) struct Scope {
    /// The only one that is wanted; empty for all.
    pub(super) wants: Name,
    /// Those of the user.
    pub(super) usable: Usable,
}

impl Scope {
    /// Whether all adapters are in it.
    pub(super) fn is_all(&self) -> bool {
        self.wants == Name::default() && self.usable == Usable::All
    }

    /// Whether its user may use an adapter.
    pub(super) fn admits(&self, port: PortId) -> bool {
        self.usable.contains(port)
    }
}
