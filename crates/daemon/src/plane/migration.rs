//! Steps of an adapter whose VM goes to another host, or comes from there.

use std::sync::Arc;

use vrdma_memory::Space;

use super::{Reply, is_withdrawn};
use crate::vm::{Activation, Frozen};

/// What a shard is asked to do. Errors are sentences and change nothing.
#[derive(Debug)]
pub enum MigrationStep {
    /// Log what the adapter writes.
    Track(Reply<Result<(), String>>),
    /// Stop the adapter, once no other shard reads its memory.
    Freeze(Reply<Result<Box<Frozen>, String>>),
    /// Let it go on.
    Thaw(Reply<Result<(), String>>),
    /// Reset it: another host has it.
    Release(Reply<Result<(), String>>),
    /// It is away, or here: whose its addresses are.
    SetAway(bool, Reply<()>),
    /// Tell the memory of the guest that waits to go on.
    Memory(Reply<Result<Arc<Space>, String>>),
    /// Go on for an adapter of another host.
    Activate(Box<Activation>),
}

impl MigrationStep {
    /// Whether it is not to be begun: whoever asked has given up.
    pub fn is_withdrawn(&self) -> bool {
        match self {
            Self::Track(reply) | Self::Release(reply) => is_withdrawn(reply),
            Self::Freeze(reply) => is_withdrawn(reply),
            Self::Activate(activation) => is_withdrawn(&activation.reply),
            Self::Thaw(_) | Self::SetAway(..) | Self::Memory(_) => false,
        }
    }
}
