//! The journal in which an adapter writes down what another process needs to go on in place of this one.

use alloc::boxed::Box;

/// Records, by kind and number. Only their writer knows what they mean.
pub trait Journal: Send {
    /// Writes a record, over an existing one if there is one; false if there is no room for it.
    fn put(&mut self, kind: u16, id: u32, bytes: &[u8]) -> bool;

    /// Removes a record, if there is one.
    fn forget(&mut self, kind: u16, id: u32);

    /// Removes all records of a kind.
    fn forget_all(&mut self, kind: u16);

    /// Makes all changes since the last commit valid at one moment.
    fn commit(&mut self);

    /// Returns another journal of the same adapter, for records of kinds that this one does not write. Both are
    /// committed together.
    fn beside(&self) -> Option<Box<dyn Journal>> {
        None
    }
}
