//! One end of a connection: its queue pair, its owner's requests, and their results.

use std::collections::HashMap;

use vrdma_verbs::object::{MrKeys, QpId, QpType};
use vrdma_verbs::work::{Imm, SendOp, Sge, Status, WcOp};
use vrdma_wire::{Gid, Qpn};

use crate::memory::Region;

/// The operation of a work request, with the place at the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    FetchAdd(u64),
    CompareSwap(u64, u64),
}

impl Op {
    /// Whether it takes a receive.
    pub(crate) fn takes_receive(self) -> bool {
        matches!(self, Self::Send | Self::SendImm | Self::WriteImm)
    }

    pub(crate) fn has_immediate(self) -> bool {
        matches!(self, Self::SendImm | Self::WriteImm)
    }

    pub(crate) fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteImm)
    }

    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd(_) | Self::CompareSwap(..))
    }

    pub(crate) fn completes_as(self) -> WcOp {
        match self {
            Self::Send | Self::SendImm => WcOp::Send,
            Self::Write | Self::WriteImm => WcOp::Write,
            Self::Read => WcOp::Read,
            Self::FetchAdd(_) => WcOp::FetchAdd,
            Self::CompareSwap(..) => WcOp::CompareSwap,
        }
    }
}

/// A send work request that was posted.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) op: Op,
    pub(crate) length: u32,
    /// Slot in the end's own buffer.
    pub(crate) local: u64,
    /// Slot in the peer's buffer; for one-sided operations.
    pub(crate) remote: u64,
    pub(crate) signaled: bool,
    /// Its bytes are in the request itself, not in the slot.
    pub(crate) inline: bool,
    /// Atomics: the word before this one, if all earlier ones were done once.
    pub(crate) word_before: u64,
    /// Its number among the messages that take a receive.
    pub(crate) message: usize,
}

/// A receive that was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) slot: u64,
    pub(crate) done: bool,
}

/// Receives of one queue, own or shared.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) adapter: usize,
    pub(crate) shared: bool,
    pub(crate) buffer: Buffer,
    pub(crate) receives: Vec<Receive>,
    pub(crate) done: usize,
    pub(crate) depth: usize,
    /// Slots to use again; their bytes are as at first.
    pub(crate) free: Vec<u64>,
}

/// A registered buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub(crate) region: Region,
    pub(crate) keys: MrKeys,
}

/// Returns the address of a place in a buffer. Buffers of one adapter are far apart.
pub(crate) fn address_of(region: Region, offset: u64) -> u64 {
    ((region as u64 + 1) << 32) + offset
}

/// Returns the place of an address.
pub(crate) fn place_of(address: u64) -> (Region, u64) {
    ((address >> 32) as Region - 1, address & 0xffff_ffff)
}

impl Buffer {
    pub(crate) fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: address_of(self.region, offset),
            length,
            lkey: self.keys.lkey,
        }
    }
}

/// The name of an end for its peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub(crate) gid: Gid,
    pub(crate) qpn: Qpn,
}

#[derive(Debug)]
pub(crate) struct End {
    pub(crate) number: usize,
    pub(crate) adapter: usize,
    pub(crate) peer: usize,
    pub(crate) kind: QpType,
    pub(crate) qp: QpId,
    pub(crate) name: Name,
    /// Memory that it sends from and reads into.
    pub(crate) local: Buffer,
    /// Memory that its peer writes to and reads from; the peer's atomic word comes first.
    pub(crate) target: Buffer,
    /// Place of that word in `target`.
    pub(crate) word: u64,
    pub(crate) pool: usize,
    pub(crate) quota: usize,
    pub(crate) signal_all: bool,
    pub(crate) rnr_for_ever: bool,
    pub(crate) mtu_bytes: u32,
    pub(crate) works: Vec<Work>,
    pub(crate) done: usize,
    /// Works that take a receive, in order.
    pub(crate) messages: Vec<usize>,
    /// Number of messages that arrived.
    pub(crate) arrived: usize,
    /// Unreliable connections: how often each message arrived.
    pub(crate) arrivals: HashMap<usize, u32>,
    /// Values of the peer's word after each of our atomics.
    pub(crate) words: Vec<u64>,
    pub(crate) atomics_done: usize,
    pub(crate) failed: Option<Status>,
}

impl End {
    pub(crate) fn is_reliable(&self) -> bool {
        self.kind == QpType::Rc
    }

    /// Whether it will post nothing more and everything is done.
    pub(crate) fn is_finished(&self) -> bool {
        let posted_all = self.works.len() >= self.quota || self.failed.is_some();
        posted_all && self.done == self.works.len()
    }

    /// Whether it failed by itself, and was not given up by its owner.
    pub(crate) fn failed_alone(&self) -> bool {
        self.failed.is_some_and(|status| status != Status::WrFlush)
    }

    pub(crate) fn wr_id(&self, work: usize) -> u64 {
        (self.number as u64) << 32 | work as u64
    }
}

/// Set in the cookie of receives.
pub(crate) const RECEIVE: u64 = 1 << 63;

/// Bytes in front of a message without acknowledgement: its sender and its number.
pub(crate) const LABEL_BYTES: u32 = 8;

/// Returns the bytes of a message: its label, then a pattern that no other message has.
pub(crate) fn pattern(end: usize, work: usize) -> impl Iterator<Item = u8> {
    let label = ((end as u64) << 32 | work as u64).to_le_bytes();
    let mut state = (end as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (work as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let rest = std::iter::repeat_with(move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    });
    label.into_iter().chain(rest)
}

/// Returns the immediate data of a work request.
pub(crate) fn immediate(work: usize) -> Imm {
    Imm((work as u32).to_be_bytes())
}

/// Returns the operation as the engine takes it.
pub(crate) fn send_op(op: Op, number: usize, remote: vrdma_verbs::work::Remote) -> SendOp<Region> {
    match op {
        Op::Send => SendOp::Send,
        Op::SendImm => SendOp::SendImm(immediate(number)),
        Op::Write => SendOp::Write(remote),
        Op::WriteImm => SendOp::WriteImm(remote, immediate(number)),
        Op::Read => SendOp::Read(remote),
        Op::FetchAdd(add) => SendOp::FetchAdd { remote, add },
        Op::CompareSwap(compare, swap) => SendOp::CompareSwap {
            remote,
            compare,
            swap,
        },
    }
}
