//! Rings in guest memory, each with private indices of the device.
//!
//! | ring | produced by | consumed by |
//! |---|---|---|
//! | [`work::WorkRing`]: send, receive, shared receive | guest | device |
//! | [`completion::CompletionRing`] | device | guest |
//! | [`device::DeviceRing`]: events, notifications | device | guest |
//!
//! Values that the guest wrote are read once, checked, and only then used; values that the device wrote are never read
//! back.

pub(crate) mod completion;
pub(crate) mod device;
pub(crate) mod work;

use vrdma_memory::{Fault, PageList};

/// Reasons why a ring cannot be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RingError {
    /// Its pages are gone.
    #[error("the ring's memory is not mapped any more")]
    Unmapped,
    /// The guest's index is impossible.
    #[error("the guest's ring index is impossible")]
    Index,
    /// No room for another entry.
    #[error("the ring is full")]
    Full,
    /// Its memory belongs to the guest again.
    #[error("the guest destroyed it while it was in use")]
    Withdrawn,
}

impl From<Fault> for RingError {
    fn from(_: Fault) -> Self {
        Self::Unmapped
    }
}

/// Bus address of an entry of `bytes` (a power of two up to a page) in an area of whole pages.
fn entry_address(
    pages: &PageList,
    first_page: u32,
    slot: u32,
    bytes: u32,
) -> Result<u64, RingError> {
    let offset = u64::from(slot) * u64::from(bytes);
    let page = first_page + (offset / vrdma_memory::PAGE) as u32;
    let address = pages.page(page).ok_or(RingError::Unmapped)?;
    Ok(address + offset % vrdma_memory::PAGE)
}
