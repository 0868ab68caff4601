//! A small PVRDMA driver for tests: device and driver meet in one process.
//!
//! ```text
//!   Fabric ── pump ──► host::Host ── DeviceMember ──► pvrdma::Device
//!                                        └── Guest ── commands, doorbells ──┘
//!                                              └── Ram: a memfd, mapped into the device's Space and
//!                                                       into the guest's
//! ```
//!
//! A [`Guest`] does what Linux's `vmw_pvrdma` and rdma-core's provider do, with their arithmetic and their sloppiness
//! (garbage after a command, stale bytes in work requests), and returns what it sees. It checks only what the real ones
//! check, so tests can be as hostile as they like. Between the devices is the daemon's own carrier; a [`DeviceMember`]
//! loses units when told to. This crate does not know QEMU, vfio-user or threads: time and traffic advance when a test
//! says so.
#![forbid(unsafe_code)]

mod clock;
mod command;
mod directory;
mod doorbell;
mod fabric;
mod guest;
mod interrupt;
mod member;
mod moving;
pub mod notebook;
pub mod object;
mod pair;
mod probe;
mod ram;
mod ring;
pub mod work;

pub use clock::Clock;
pub use command::CommandError;
pub use directory::Directory;
pub use fabric::Fabric;
pub use guest::Guest;
pub use member::{DeviceMember, NoUplink, Unit};
pub use moving::SavedRam;
pub use pair::{End, Pair, PairOptions};
pub use probe::{Driver, ProbeError};
pub use ram::{DOORBELL_BASE, RAM_BASE, Ram};
pub use ring::{ConsumerRing, Full, ProducerRing, RingMath};
