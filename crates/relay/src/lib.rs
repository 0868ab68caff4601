//! Between two QEMUs: a migrating VM's memory goes by RDMA WRITE, the rest as QEMU sends it.
//!
//! ```text
//!   QEMU ──unix──► relay ════ pages, from the guest's memory into the guest's memory ═══► relay ──unix──► QEMU
//!    source          `──────── the rest of the stream, in the same order ─────────────────'     destination
//! ```
//!
//! QEMU puts a page into its stream after it has noted the page as clean. What is read later from the guest's memory is
//! therefore what the stream has, or newer; if newer, the page is dirty and comes again. The last pages come when the
//! VM stands still. One queue pair carries pages and stream, hence the destination's QEMU reads nothing before the
//! pages ahead of it have arrived.
//!
//! `stream` and `replies` are pure; `link`, `guest` and `stream_file` have the `unsafe`. This room does not know QEMU's
//! monitor, nor anything of a migration besides its stream: room `migration` tells it where the blocks are.

mod end;
mod failure;
mod guest;
mod link;
mod message;
mod pump;
mod queue;
mod receiving;
mod replies;
mod sending;
pub mod stream;
mod stream_file;

pub use failure::Failure;
pub use pump::Passed;
pub use receiving::Receiver;
pub use sending::{Sender, Sending, SentBlock};
pub use stream_file::{Mounter, mount};
