//! The records. A field keeps its number for ever; a field that is missing has its default.

mod counters;
mod queue_pair;
mod work;

use alloc::vec::Vec;

use prost::Message;

use crate::names::Name;

pub(super) use counters::{Counters, Drops, Traffic};
pub(super) use queue_pair::{
    Address, Attr, Capacity, Pending, Qp, Replay, Requester, Responder, SendUnderWay, WriteUnderWay,
};
pub(super) use work::{Bind, Datagram, Fill, Receive, Send, Sge};

/// The part that every version can read of every other.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Header {
    #[prost(uint32, tag = "1")]
    pub(super) version: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Adapter {
    #[prost(uint32, tag = "1")]
    pub(super) version: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) mac: Vec<u8>,
    #[prost(fixed64, tag = "3")]
    pub(super) seed: u64,
    #[prost(message, required, tag = "4")]
    pub(super) limits: Limits,
    #[prost(message, repeated, tag = "5")]
    pub(super) gids: Vec<Gid>,
    #[prost(message, required, tag = "6")]
    pub(super) pd_slots: Slots,
    #[prost(message, repeated, tag = "7")]
    pub(super) pds: Vec<Pd>,
    #[prost(message, required, tag = "8")]
    pub(super) mr_slots: Slots,
    #[prost(message, repeated, tag = "9")]
    pub(super) mrs: Vec<Mr>,
    #[prost(message, required, tag = "10")]
    pub(super) cq_slots: Slots,
    #[prost(message, repeated, tag = "11")]
    pub(super) cqs: Vec<Cq>,
    #[prost(message, required, tag = "12")]
    pub(super) srq_slots: Slots,
    #[prost(message, repeated, tag = "13")]
    pub(super) srqs: Vec<Srq>,
    #[prost(message, required, tag = "14")]
    pub(super) qp_slots: Slots,
    #[prost(message, repeated, tag = "15")]
    pub(super) qps: Vec<Qp>,
    #[prost(message, required, tag = "16")]
    pub(super) counters: Counters,
    #[prost(bool, tag = "17")]
    pub(super) plain_numbers: bool,
    #[prost(message, repeated, tag = "18")]
    pub(super) attachments: Vec<Attachment>,
}

/// A queue pair as one piece.
#[derive(Clone, PartialEq, Message)]
pub(super) struct QpPiece {
    #[prost(message, required, tag = "1")]
    pub(super) qp: Qp,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(super) groups: Vec<Vec<u8>>,
}

/// A queue pair in a multicast group.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attachment {
    #[prost(uint32, tag = "1")]
    pub(super) qp: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) group: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Limits {
    #[prost(uint32, tag = "1")]
    pub(super) pds: u32,
    #[prost(uint32, tag = "2")]
    pub(super) mrs: u32,
    #[prost(uint32, tag = "3")]
    pub(super) cqs: u32,
    #[prost(uint32, tag = "4")]
    pub(super) qps: u32,
    #[prost(uint32, tag = "5")]
    pub(super) srqs: u32,
    #[prost(uint32, tag = "6")]
    pub(super) gids: u32,
    #[prost(uint32, tag = "7")]
    pub(super) rd_atomic: u32,
    #[prost(uint32, tag = "8")]
    pub(super) message_bytes: u32,
    #[prost(uint32, tag = "9")]
    pub(super) port_mtu: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Gid {
    #[prost(uint32, tag = "1")]
    pub(super) index: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) gid: Vec<u8>,
}

/// Slots of a table: the name of each, and the free ones, oldest first.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Slots {
    /// In version 1, these were in the place of names.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) generations: Vec<u8>,
    #[prost(uint32, repeated, tag = "2")]
    pub(super) free: Vec<u32>,
    /// Names of slots, as numbers and variants. All ones: no name.
    #[prost(uint32, repeated, tag = "3")]
    pub(super) names: Vec<u32>,
    /// Number of words used of the names' source.
    #[prost(fixed64, tag = "4")]
    pub(super) drawn: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Pd {
    #[prost(uint32, tag = "1")]
    pub(super) id: u32,
    #[prost(uint32, tag = "2")]
    pub(super) owner: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mr {
    #[prost(uint32, tag = "1")]
    pub(super) id: u32,
    #[prost(uint32, tag = "2")]
    pub(super) pd: u32,
    /// 0 user, 1 DMA, 2 fast register, 3 window of type 1, 4 window of type 2.
    #[prost(uint32, tag = "3")]
    pub(super) kind: u32,
    /// Capacity of a fast-register region.
    #[prost(uint32, tag = "4")]
    pub(super) pages: u32,
    /// Low byte of the keys.
    #[prost(uint32, tag = "5")]
    pub(super) variant: u32,
    #[prost(uint64, tag = "6")]
    pub(super) start: u64,
    #[prost(uint64, tag = "7")]
    pub(super) length: u64,
    #[prost(uint32, tag = "8")]
    pub(super) access: u32,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(super) region: Option<Vec<u8>>,
    /// For a window: the region that it is bound to.
    #[prost(uint32, optional, tag = "10")]
    pub(super) bound_to: Option<u32>,
    /// For a bound window: its offset in that region, in bytes from the region's start.
    #[prost(uint64, tag = "11")]
    pub(super) base: u64,
    /// For a bound window of type 2: the queue pair that bound it.
    #[prost(uint32, optional, tag = "12")]
    pub(super) bound_by: Option<u32>,
    /// Upper 24 bits of the keys; in version 1, the slot.
    #[prost(uint32, optional, tag = "13")]
    pub(super) number: Option<u32>,
}

impl Mr {
    pub(super) fn name(&self) -> Name {
        Name::new(self.number.unwrap_or(self.id), self.variant as u8)
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Cq {
    #[prost(uint32, tag = "1")]
    pub(super) id: u32,
    #[prost(uint32, tag = "2")]
    pub(super) owner: u32,
    #[prost(bool, tag = "3")]
    pub(super) failed: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Srq {
    #[prost(uint32, tag = "1")]
    pub(super) id: u32,
    #[prost(uint32, tag = "2")]
    pub(super) pd: u32,
    #[prost(uint32, tag = "3")]
    pub(super) limit: u32,
    #[prost(bool, tag = "4")]
    pub(super) failed: bool,
    #[prost(message, repeated, tag = "5")]
    pub(super) receives: Vec<Receive>,
}
