//! Between two QEMUs: the memory of a VM that migrates goes by RDMA WRITE, the rest as QEMU sends it.
//!
//! ```text
//!   QEMU ──unix──► relay ════ pages, from the guest's memory into the guest's memory ═══► relay ──unix──► QEMU
//!    source          `──────── the rest of the stream, in the same order ─────────────────'     destination
//! ```
//!
//! QEMU's stream has each page after QEMU has noted that it is clean again, so what is read later from the guest's memory is
//! what the stream has, or newer: and then the page is dirty and comes again. The last pages come when the VM stands still.
//! One queue pair carries pages and stream, hence the destination's QEMU reads nothing before the pages ahead of it are there.
//!
//! `stream` and `replies` are pure; `link`, `guest` and `stream_file` have the `unsafe`. This room does not know QEMU's monitor, nor what a
//! migration is besides its stream: room `migration` tells it which blocks are where.

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
