//! Steps of an adapter whose VM goes to another host, or comes from there.

use std::sync::Arc;

use vrdma_memory::Space;
use vrdma_threads::{Reply, is_withdrawn};

use crate::vm::{Frozen, Made, Resending, Restoring};

/// A step for a shard to take. Errors are sentences and change nothing.
#[derive(Debug)]
pub enum MigrationStep {
    /// Log what the adapter writes, and tell its PCI configuration space.
    Track(Reply<Result<Vec<u8>, String>>),
    /// Stop the adapter, once no other shard reads its memory.
    Freeze(Reply<Result<Box<Frozen>, String>>),
    /// Tell the memory of the guest of an adapter that is tracked.
    TrackedMemory(Reply<Result<Arc<Space>, String>>),
    /// Have QEMU send what the adapter has written, as if the guest had written it.
    Resend(Resending),
    /// Let the frozen adapter go on.
    Thaw(Reply<Result<(), String>>),
    /// Reset the adapter: another host has it.
    Release(Reply<Result<(), String>>),
    /// Note that the adapter is away, or here, which decides who owns its addresses.
    SetAway(bool, Reply<()>),
    /// Tell the memory of the guest that waits to go on.
    Memory(Reply<Result<Arc<Space>, String>>),
    /// Give QEMU its state from the other host, and tell what a device is made over. Until the device is there, QEMU is
    /// not heard.
    Restore(Box<Restoring>),
    /// Put the device made from it in its place; it does nothing yet.
    TakeMade(Box<Made>, Reply<Result<(), String>>),
    /// Tell the memory of the guest of an adapter that is frozen.
    FrozenMemory(Reply<Result<Arc<Space>, String>>),
    /// Tell whether the adapter was restored, and waits.
    IsRestored(Reply<Result<bool, String>>),
    /// Reset the adapter if it was restored: the other one goes on.
    Discard(Reply<Result<(), String>>),
    /// Let it go on in place of the other one.
    Activate(Reply<Result<(), String>>),
}

impl MigrationStep {
    /// Whether it is not to be begun, since the caller has given up.
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
