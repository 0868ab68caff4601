//! The turn of one member.

use vrdma_switch::PortId;
use vrdma_verbs::Time;

/// The state that each step done for one member needs.
pub(crate) struct Turn<'a, V> {
    /// The member.
    pub(crate) from: PortId,
    /// Its memory.
    pub(crate) memory: &'a V,
    pub(crate) now: Time,
}

impl<V> Clone for Turn<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Turn<'_, V> {}
