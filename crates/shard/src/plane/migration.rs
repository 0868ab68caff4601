//! Steps of an adapter whose VM goes to another host, or comes from there.

use std::sync::Arc;

use vrdma_memory::Space;
use vrdma_threads::{Reply, is_withdrawn};

use crate::vm::{Frozen, Made, Resending, Restoring};

/// What a shard is asked to do. Errors are sentences and change nothing.
#[derive(Debug)]
pub enum MigrationStep {
    /// Log what the adapter writes, and tell its PCI configuration space.
    Track(Reply<Result<Vec<u8>, String>>),
    /// Stop the adapter, once no other shard reads its memory.
    Freeze(Reply<Result<Box<Frozen>, String>>),
    /// Tell the memory of the guest of one that is tracked.
    TrackedMemory(Reply<Result<Arc<Space>, String>>),
    /// Have QEMU send what it has written, as if the guest had.
    Resend(Resending),
    /// Let it go on.
    Thaw(Reply<Result<(), String>>),
    /// Reset it: another host has it.
    Release(Reply<Result<(), String>>),
    /// It is away, or here: whose its addresses are.
    SetAway(bool, Reply<()>),
    /// Tell the memory of the guest that waits to go on.
    Memory(Reply<Result<Arc<Space>, String>>),
    /// Give QEMU what it has of another host's, and tell what a device is made over; until it is there nothing of QEMU is heard.
    Restore(Box<Restoring>),
    /// Have that device in its place; it does nothing yet.
    TakeMade(Box<Made>, Reply<Result<(), String>>),
    /// Tell the memory of the guest of one that is frozen.
    FrozenMemory(Reply<Result<Arc<Space>, String>>),
    /// Whether it was, and waits.
    IsRestored(Reply<Result<bool, String>>),
    /// Reset it if it was: the other one goes on.
    Discard(Reply<Result<(), String>>),
    /// Let it go on in the other one's place.
    Activate(Reply<Result<(), String>>),
}

impl MigrationStep {
    /// Whether it is not to be begun: whoever asked has given up.
    pub fn is_withdrawn(&self) -> bool {
        match self {
            Self::Track(reply) => is_withdrawn(reply),
            Self::Release(reply) | Self::Activate(reply) | Self::TakeMade(_, reply) => {
                is_withdrawn(reply)
            }
            Self::Freeze(reply) => is_withdrawn(reply),
            Self::Resend(resending) => is_withdrawn(&resending.reply),
            Self::Restore(restoring) => is_withdrawn(&restoring.reply),
            Self::Thaw(_)
            | Self::SetAway(..)
            | Self::TrackedMemory(_)
            | Self::Memory(_)
            | Self::FrozenMemory(_)
            | Self::IsRestored(_)
            | Self::Discard(_) => false,
        }
    }
}
