//! The words that two sides share, and memory made of them: of this machine, or of loom's model of one.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p vrdma-provider --lib model::` tries every order in which the two sides may
//! see each other's stores.

#[cfg(not(loom))]
mod shipped {
    pub(crate) use std::sync::atomic::AtomicU32;

    pub(crate) use crate::area::Area;

    /// SeqCst accesses have one order among them. On x86 a store of that kind takes an eighth of a fence.
    #[inline]
    pub(crate) fn one_order() {}
}

#[cfg(loom)]
mod modelled {
    pub(crate) use loom::sync::atomic::AtomicU32;

    pub(crate) use crate::model::Area;

    /// Loom takes SeqCst accesses for acquire and release only, and SeqCst fences for what they are.
    pub(crate) fn one_order() {
        loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(loom)]
pub(crate) use modelled::*;
#[cfg(not(loom))]
pub(crate) use shipped::*;
