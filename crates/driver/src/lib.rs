//! A small PVRDMA driver for tests: device and driver meet in one process.
//!
//! ```text
//!   Fabric ── pump ──► Guest ── commands, doorbells ──► pvrdma::Device
//!     │                  └── Ram: a memfd, mapped into the device's Space and into the guest's
//!     └── carries requests and responses between the devices, loses them when told to
//! ```
//!
//! A [`Guest`] does what Linux's `vmw_pvrdma` and rdma-core's provider do, with their arithmetic and
//! their sloppiness (garbage behind a command, stale bytes in work requests), and hands out what it
//! sees; it checks nothing that the real ones do not check, so tests can be as hostile as they like.
//! It does not know QEMU, vfio-user or threads: time and traffic move when a test says so.
#![forbid(unsafe_code)]

mod clock;
mod command;
mod directory;
mod doorbell;
mod fabric;
mod guest;
mod interrupt;
pub mod object;
mod pair;
mod probe;
mod ram;
mod ring;
pub mod work;

pub use clock::Clock;
pub use command::CommandError;
pub use directory::Directory;
pub use fabric::{Fabric, Unit};
pub use guest::Guest;
pub use pair::{End, Pair, PairOptions};
pub use probe::{Driver, ProbeError};
pub use ram::{DOORBELL_BASE, RAM_BASE, Ram};
pub use ring::{ConsumerRing, Full, ProducerRing, RingMath};
