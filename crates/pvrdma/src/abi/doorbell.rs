//! Doorbell words of a UAR page (`PVRDMA_UAR_*`).
//!
//! ```text
//!   byte 0   QP    handle | send 1<<30 | receive 1<<31
//!   byte 4   CQ    handle | arm solicited 1<<29 | arm any 1<<30 | poll 1<<31
//!   byte 8   SRQ   handle | receive 1<<30
//! ```

use bitflags::bitflags;

/// Bits of a doorbell word that hold the handle.
pub const HANDLE_MASK: u32 = 0x00ff_ffff;

/// The doorbells of a page, by their offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Doorbell {
    /// Queue pairs.
    Qp = 0,
    /// Completion queues.
    Cq = 4,
    /// Shared receive queues.
    Srq = 8,
}

impl Doorbell {
    /// All doorbells.
    pub const ALL: [Self; 3] = [Self::Qp, Self::Cq, Self::Srq];

    /// The doorbell at `offset` inside a page.
    pub const fn at(offset: u64) -> Option<Self> {
        Some(match offset {
            0 => Self::Qp,
            4 => Self::Cq,
            8 => Self::Srq,
            _ => return None,
        })
    }

    /// The doorbell's offset inside a page.
    pub const fn offset(self) -> u64 {
        self as u64
    }
}

bitflags! {
    /// Flags of the QP word.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct QpFlags: u32 {
        /// Work requests were added to the send queue.
        const SEND = 1 << 30;
        /// Work requests were added to the receive queue.
        const RECV = 1 << 31;
    }

    /// Flags of the CQ word.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CqFlags: u32 {
        /// Notify at the next solicited completion or error.
        const ARM_SOLICITED = 1 << 29;
        /// Notify at the next completion.
        const ARM = 1 << 30;
        /// The CQ was found empty.
        const POLL = 1 << 31;
    }

    /// Flags of the SRQ word.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SrqFlags: u32 {
        /// Work requests were added.
        const RECV = 1 << 30;
    }
}
