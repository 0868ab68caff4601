//! Where an adapter writes down what another process needs to go on for this one.

use alloc::boxed::Box;

/// Records, by kind and number. What they mean is for their writer to know.
pub trait Journal: Send {
    /// Writes a record, over the one that there is; false if there is no room for it.
    fn put(&mut self, kind: u16, id: u32, bytes: &[u8]) -> bool;

    /// Removes a record, if there is one.
    fn forget(&mut self, kind: u16, id: u32);

    /// Removes all records of a kind.
    fn forget_all(&mut self, kind: u16);

    /// Makes everything since the last time count, all of it at one moment.
    fn commit(&mut self);

    /// Another one of the same adapter, for records of kinds that this one does not write. They are committed together.
    fn beside(&self) -> Option<Box<dyn Journal>> {
        None
    }
}
