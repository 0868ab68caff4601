//! The words that two sides share, and memory made of such words: real ones, or those of loom's model.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p vrdma-provider --lib model::` tries every order in which the two sides may
//! see each other's stores.

#[cfg(not(loom))]
mod shipped {
    pub(crate) use std::sync::atomic::AtomicU32;

    pub(crate) use crate::area::Area;

    /// SeqCst accesses already have one order among them. On x86 a SeqCst store takes an eighth of the time of a fence.
    #[inline]
    pub(crate) fn one_order() {}
}

#[cfg(loom)]
mod modelled {
    pub(crate) use loom::sync::atomic::AtomicU32;

    pub(crate) use crate::model::Area;

    /// Loom treats SeqCst accesses as acquire and release only, but models SeqCst fences exactly.
    pub(crate) fn one_order() {
        loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(loom)]
pub(crate) use modelled::*;
#[cfg(not(loom))]
pub(crate) use shipped::*;
