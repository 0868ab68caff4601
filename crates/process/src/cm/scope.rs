//! The scope of a client: of the adapters that its user may use, the one that it named, or all.

use vrdma_provider::message::Name;
use vrdma_switch::PortId;

use crate::admission::Usable;

/// The adapters that a client may use.
pub(super) struct Scope {
    /// The only adapter that the client wants; empty for all.
    pub(super) wants: Name,
    /// The adapters that the user may use.
    pub(super) usable: Usable,
}

impl Scope {
    /// Whether the scope has all adapters.
    pub(super) fn is_all(&self) -> bool {
        self.wants == Name::default() && self.usable == Usable::All
    }

    /// Whether the user may use an adapter.
    pub(super) fn admits(&self, port: PortId) -> bool {
        self.usable.contains(port)
    }
}
