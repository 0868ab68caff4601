//! Contexts of adapters between daemons, by TCP: the socket side of the room `handover`.
//!
//! ```text
//!   control plane: hand over ──► sending ═══ TCP ═══► listening ──► control plane: keep the context
//! ```
//! All of it runs on the thread of the control plane, in steps of one frame. Each wait has a limit: a host that is not
//! there, or stalls, costs a migration and nothing else.

mod frames;
mod listening;
mod sending;

pub use listening::{bind, listen};
pub(crate) use sending::{deliver, reach};
