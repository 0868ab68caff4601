//! The device as its driver sees it.

mod atomic;
mod connected;
mod doorbells;
mod probe;
