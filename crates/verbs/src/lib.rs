//! The verbs engine: one HCA's objects, its requester and its responder.
//!
//! ```text
//!   post_send ──► requester ── Request ──►  switch  ── Request ──► responder ◄── post_recv
//!                     ▲                                               │
//!   Output ◄── completer ◄─────────────── Response ◄──────────────────┘ ──► Output
//! ```
//!
//! Pure: time is an argument, memory is a trait, units, completions and events are values. The engine
//! does not know what a guest, a ring, a socket or a thread is, nor where a unit travels.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod attr;
pub mod memory;
pub mod object;
pub mod unit;
pub mod work;
