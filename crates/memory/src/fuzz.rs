//! Fuzz bodies for private parts of this room, used by `crates/fuzz`.

pub use crate::client::judge_lists as places;
