//! Objects of the driver: the results of create commands, and the memory that goes with them.
//!
//! Each `*_request` builds the command as the driver would, for tests that then spoil a field; each `create_*` sends
//! it. Like the driver, a destroy frees the object's pages as soon as the error register was read, whatever its value.

mod buffer;
mod context;
mod cq;
mod gid;
mod mr;
mod port;
mod qp;
mod srq;
mod transition;

pub use buffer::{Buffer, pattern};
pub use context::{Context, Pd};
pub use cq::{Completion, Cq};
pub use mr::{Mr, rights};
pub use qp::{Qp, QpShape};
pub use srq::Srq;
pub use transition::{Connection, qp_mask, qp_state};
