//! Guest and client memory: DMA maps, page lists, access checks, one-copy.
//!
//! ```text
//!   Region::Client ─► ClientMemory: /proc/PID/mem, process_vm_*
//!   Region::File ─► FileRegion: our mmap of the client's file
//!   Region::Partly ─► PartlyMapped: the middle is a FileRegion, the rest a ClientRegion
//!   Region::Bus ──────────────────────────┐
//!   Region::Pages ─► PageList ─► page i ──┤ bus address
//!                                         ▼
//!   View ─► Cursor ─► Maps: [iova, iova+size) ─► Mapping: our mmap of the guest's file
//!                             │                      │
//!                        dirty bitmap           Guard: survives a truncated file
//! ```
//!
//! A [`Space`] is all memory that one guest or client lets us touch. Bytes are reached through a [`View`], which holds
//! the maps still for as long as it lives: unmapping waits for the views, so no access outlives the answer to an unmap.
//! No host pointer leaves this room and none is kept between views.
//!
//! This room does not know what the bytes mean, which protocol mapped them, or who may use which key: registrations are
//! the engine's business.

mod backing;
mod client;
mod closing;
mod copy;
mod cursor;
mod dirty;
mod file;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod guard;
mod kernel;
mod map;
mod mapping;
mod page_list;
mod partly;
mod populated;
mod region;
mod shared;
mod space;
mod stalled;
mod stores;
mod tenant;
mod unmapping;
mod view;
mod waited;
mod word;

pub use client::{ClientMemory, ClientRegion, NotMemory, is_in_memory, lend};
pub use dirty::{DirtyLog, DirtyRun};
pub use file::FileRegion;
pub use map::{Protection, Right};
pub use mapping::MapError;
pub use page_list::{Level, MAX_PAGES, PageError, PageFlaw, PageList, PageWalk};
pub use partly::PartlyMapped;
pub use region::Region;
pub use shared::SharedPages;
pub use space::{MAX_BYTES, MAX_MAPS, Space, UnmapError, Unmapped};
pub use tenant::Tenant;
pub use view::View;
pub use vrdma_verbs::memory::{CopyFault, Fault, Memory, Spot};
pub use waited::AllTenants;

/// Bytes of a page, the unit of maps, page lists and the dirty log. The PVRDMA device speaks of
/// 4 KiB pages whatever the host uses.
pub const PAGE: u64 = 4096;
