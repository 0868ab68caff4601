//! Server side of the vfio-user protocol, as QEMU 11's `vfio-user-pci` speaks it.
//!
//! ```text
//!   QEMU ── Unix stream socket ──> socket     bytes and file descriptors, system calls
//!                                    │
//!                                 session     framing, negotiation, checks, matching of replies
//!                                    │        (no I/O; reads and writes `message` structures)
//!                                 Backend     the device, implemented by the daemon
//! ```
//!
//! [`message`] has the layouts, [`session`] the rules of the conversation, [`socket`] the system calls, [`irq`] keeps
//! interrupts while the client rewires its vectors, and [`migration`] has the states of a device that its client takes
//! to another host. None of them knows which device is behind [`Backend`].
//!
//! The protocol is host-endian, and client and server share a host, which for supported guests is little-endian; the
//! layouts are declared so.

// Except the handler of the one signal that interrupts waiting calls, and sending that signal.
#![deny(unsafe_code)]

pub mod backend;
mod client_fd;
pub mod eventfd;
#[expect(
    unsafe_code,
    reason = "no safe crate installs a handler without SA_RESTART"
)]
mod interrupter;
pub mod irq;
pub mod message;
pub mod migration;
pub mod session;
pub mod socket;
pub mod state;

#[cfg(test)]
mod script;

pub use backend::{
    Backend, DmaMap, DmaUnmap, IrqAction, IrqData, MmapArea, Region, RegionMmap, SetIrqs,
};
pub use client_fd::{ClientFd, Closing};
pub use eventfd::Eventfd;
pub use irq::{Blocks, IrqVectors, Signal};
pub use migration::Migration;
pub use rustix::io::Errno;
pub use session::{DmaRefused, Session, SessionError};
pub use socket::{Closed, Connection, KEPT_DESCRIPTORS, Listener, ListenerError, Progress};
pub use state::{BadState, SessionState};
