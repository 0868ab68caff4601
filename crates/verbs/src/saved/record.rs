//! The records. A field's number is for ever; a field that is not there has its default.

use alloc::vec::Vec;

use prost::Message;

/// What every version can read of every other.
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

/// Slots of a table: the generation of each, and the free ones, oldest first.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Slots {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) generations: Vec<u8>,
    #[prost(uint32, repeated, tag = "2")]
    pub(super) free: Vec<u32>,
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
    /// A window: the region that it is bound to.
    #[prost(uint32, optional, tag = "10")]
    pub(super) bound_to: Option<u32>,
    /// A bound window: where it begins in that region, in bytes from the region's start.
    #[prost(uint64, tag = "11")]
    pub(super) base: u64,
    /// A bound window of type 2: the queue pair that bound it.
    #[prost(uint32, optional, tag = "12")]
    pub(super) bound_by: Option<u32>,
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

#[derive(Clone, PartialEq, Message)]
pub(super) struct Qp {
    #[prost(uint32, tag = "1")]
    pub(super) id: u32,
    #[prost(uint32, tag = "2")]
    pub(super) qpn: u32,
    /// 0 GSI, 1 RC, 2 UD, 3 UC.
    #[prost(uint32, tag = "3")]
    pub(super) qp_type: u32,
    #[prost(uint32, tag = "4")]
    pub(super) pd: u32,
    #[prost(uint32, tag = "5")]
    pub(super) send_cq: u32,
    #[prost(uint32, tag = "6")]
    pub(super) recv_cq: u32,
    #[prost(uint32, optional, tag = "7")]
    pub(super) srq: Option<u32>,
    #[prost(bool, tag = "8")]
    pub(super) signal_all: bool,
    #[prost(message, required, tag = "9")]
    pub(super) attr: Attr,
    #[prost(message, required, tag = "10")]
    pub(super) requester: Requester,
    #[prost(message, required, tag = "11")]
    pub(super) responder: Responder,
    #[prost(bool, tag = "12")]
    pub(super) block_own_multicast: bool,
    #[prost(message, optional, tag = "13")]
    pub(super) capacity: Option<Capacity>,
}

/// Sizes of the queues as their owner knows them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Capacity {
    #[prost(uint32, tag = "1")]
    pub(super) send_wrs: u32,
    #[prost(uint32, tag = "2")]
    pub(super) recv_wrs: u32,
    #[prost(uint32, tag = "3")]
    pub(super) send_sges: u32,
    #[prost(uint32, tag = "4")]
    pub(super) recv_sges: u32,
    #[prost(uint32, tag = "5")]
    pub(super) inline_bytes: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Attr {
    #[prost(uint32, tag = "1")]
    pub(super) state: u32,
    #[prost(bool, tag = "2")]
    pub(super) sqd_event: bool,
    #[prost(uint32, tag = "3")]
    pub(super) access: u32,
    #[prost(uint32, tag = "4")]
    pub(super) pkey_index: u32,
    #[prost(uint32, tag = "5")]
    pub(super) port: u32,
    #[prost(uint32, tag = "6")]
    pub(super) qkey: u32,
    #[prost(message, required, tag = "7")]
    pub(super) address: Address,
    #[prost(uint32, tag = "8")]
    pub(super) path_mtu: u32,
    #[prost(uint32, tag = "9")]
    pub(super) timeout: u32,
    #[prost(uint32, tag = "10")]
    pub(super) retry_count: u32,
    #[prost(uint32, tag = "11")]
    pub(super) rnr_retry: u32,
    #[prost(uint32, tag = "12")]
    pub(super) rq_psn: u32,
    #[prost(uint32, tag = "13")]
    pub(super) sq_psn: u32,
    #[prost(uint32, tag = "14")]
    pub(super) max_rd_atomic: u32,
    #[prost(uint32, tag = "15")]
    pub(super) max_dest_rd_atomic: u32,
    #[prost(uint32, tag = "16")]
    pub(super) min_rnr_timer: u32,
    #[prost(uint32, tag = "17")]
    pub(super) dest_qpn: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Address {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) dgid: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(super) sgid_index: u32,
    #[prost(uint32, tag = "3")]
    pub(super) hop_limit: u32,
    #[prost(uint32, tag = "4")]
    pub(super) traffic_class: u32,
    #[prost(uint32, tag = "5")]
    pub(super) flow_label: u32,
    #[prost(uint32, tag = "6")]
    pub(super) sl: u32,
    #[prost(uint32, tag = "7")]
    pub(super) port: u32,
    #[prost(bytes = "vec", tag = "8")]
    pub(super) dmac: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Requester {
    #[prost(message, repeated, tag = "1")]
    pub(super) queue: Vec<Pending>,
    #[prost(uint32, tag = "2")]
    pub(super) unacked: u32,
    #[prost(uint32, tag = "3")]
    pub(super) retries: u32,
    #[prost(uint32, tag = "4")]
    pub(super) rnr_retries: u32,
    /// An event is due when the queue is drained.
    #[prost(bool, tag = "5")]
    pub(super) drain_event: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Pending {
    #[prost(message, required, tag = "1")]
    pub(super) work: Send,
    /// 0 posted, 1 started, 2 done, 3 failed.
    #[prost(uint32, tag = "2")]
    pub(super) phase: u32,
    /// With which status it failed.
    #[prost(uint32, tag = "3")]
    pub(super) status: u32,
    #[prost(uint32, tag = "4")]
    pub(super) length: u32,
    #[prost(uint32, tag = "5")]
    pub(super) first: u32,
    #[prost(uint32, tag = "6")]
    pub(super) packets: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Responder {
    #[prost(message, repeated, tag = "1")]
    pub(super) queue: Vec<Receive>,
    #[prost(uint32, tag = "2")]
    pub(super) expected: u32,
    #[prost(uint32, tag = "3")]
    pub(super) msn: u32,
    #[prost(bool, tag = "4")]
    pub(super) told: bool,
    #[prost(bool, tag = "5")]
    pub(super) established: bool,
    /// A SEND under way.
    #[prost(message, optional, tag = "6")]
    pub(super) send: Option<SendUnderWay>,
    /// A WRITE under way.
    #[prost(message, optional, tag = "7")]
    pub(super) write: Option<WriteUnderWay>,
    #[prost(message, repeated, tag = "8")]
    pub(super) replays: Vec<Replay>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SendUnderWay {
    #[prost(message, required, tag = "1")]
    pub(super) receive: Receive,
    #[prost(uint32, tag = "2")]
    pub(super) stored: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WriteUnderWay {
    #[prost(uint64, tag = "1")]
    pub(super) addr: u64,
    #[prost(uint32, tag = "2")]
    pub(super) rkey: u32,
    #[prost(uint32, tag = "3")]
    pub(super) left: u32,
    #[prost(uint32, tag = "4")]
    pub(super) length: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Replay {
    #[prost(uint32, tag = "1")]
    pub(super) psn: u32,
    #[prost(uint64, tag = "2")]
    pub(super) old: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sge {
    #[prost(uint64, tag = "1")]
    pub(super) addr: u64,
    #[prost(uint32, tag = "2")]
    pub(super) length: u32,
    #[prost(uint32, tag = "3")]
    pub(super) lkey: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Receive {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(message, repeated, tag = "2")]
    pub(super) sges: Vec<Sge>,
    /// Not 0: the request was undecodable and completes with this status.
    #[prost(uint32, tag = "3")]
    pub(super) refused: u32,
}

/// A send work request. Which of the optional fields count, `op` says.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Send {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    /// 0 SEND, 1 with immediate, 2 with invalidate, 3 WRITE, 4 with immediate, 5 READ, 6 compare
    /// and swap, 7 fetch and add, 8 local invalidate, 9 fast register, 10 refused, 11 bind a window.
    #[prost(uint32, tag = "2")]
    pub(super) op: u32,
    #[prost(bool, tag = "3")]
    pub(super) fence: bool,
    #[prost(bool, tag = "4")]
    pub(super) signaled: bool,
    #[prost(bool, tag = "5")]
    pub(super) solicited: bool,
    #[prost(message, repeated, tag = "6")]
    pub(super) sges: Vec<Sge>,
    #[prost(message, optional, tag = "7")]
    pub(super) datagram: Option<Datagram>,
    /// Immediate data, in the order of the wire.
    #[prost(fixed32, tag = "8")]
    pub(super) imm: u32,
    /// The peer's key, or the one to invalidate or fill.
    #[prost(uint32, tag = "9")]
    pub(super) key: u32,
    /// The peer's address.
    #[prost(uint64, tag = "10")]
    pub(super) addr: u64,
    /// Compare value or addend.
    #[prost(uint64, tag = "11")]
    pub(super) operand: u64,
    #[prost(uint64, tag = "12")]
    pub(super) swap: u64,
    #[prost(message, optional, tag = "13")]
    pub(super) fill: Option<Fill>,
    /// With which status a refused one completes.
    #[prost(uint32, tag = "14")]
    pub(super) status: u32,
    #[prost(message, optional, tag = "15")]
    pub(super) bind: Option<Bind>,
    /// Payload in place of buffers.
    #[prost(bytes = "vec", optional, tag = "16")]
    pub(super) inline: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Datagram {
    #[prost(uint32, tag = "1")]
    pub(super) qpn: u32,
    #[prost(uint32, tag = "2")]
    pub(super) qkey: u32,
    #[prost(message, required, tag = "3")]
    pub(super) address: Address,
}

/// What a window is bound to.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Bind {
    #[prost(uint32, tag = "1")]
    pub(super) region: u32,
    #[prost(uint64, tag = "2")]
    pub(super) start: u64,
    #[prost(uint64, tag = "3")]
    pub(super) length: u64,
    #[prost(uint32, tag = "4")]
    pub(super) access: u32,
    #[prost(bool, tag = "5")]
    pub(super) zero_based: bool,
}

/// Contents of a fast-register region.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Fill {
    #[prost(uint64, tag = "1")]
    pub(super) start: u64,
    #[prost(uint64, tag = "2")]
    pub(super) length: u64,
    #[prost(uint32, tag = "3")]
    pub(super) access: u32,
    #[prost(uint32, tag = "4")]
    pub(super) pages: u32,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) region: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Traffic {
    #[prost(uint64, tag = "1")]
    pub(super) sends: u64,
    #[prost(uint64, tag = "2")]
    pub(super) writes: u64,
    #[prost(uint64, tag = "3")]
    pub(super) reads: u64,
    #[prost(uint64, tag = "4")]
    pub(super) atomics: u64,
    #[prost(uint64, tag = "5")]
    pub(super) datagrams: u64,
    #[prost(uint64, tag = "6")]
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Drops {
    #[prost(uint64, tag = "1")]
    pub(super) unknown_qp: u64,
    #[prost(uint64, tag = "2")]
    pub(super) wrong_state: u64,
    #[prost(uint64, tag = "3")]
    pub(super) wrong_peer: u64,
    #[prost(uint64, tag = "4")]
    pub(super) unbound_gid: u64,
    #[prost(uint64, tag = "5")]
    pub(super) wrong_qkey: u64,
    #[prost(uint64, tag = "6")]
    pub(super) malformed: u64,
    #[prost(uint64, tag = "7")]
    pub(super) no_receive: u64,
    #[prost(uint64, tag = "8")]
    pub(super) out_of_sequence: u64,
    #[prost(uint64, tag = "9")]
    pub(super) source_fault: u64,
    #[prost(uint64, tag = "10")]
    pub(super) stale_response: u64,
    #[prost(uint64, tag = "11")]
    pub(super) no_access: u64,
    #[prost(uint64, tag = "12")]
    pub(super) wrong_pkey: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Counters {
    #[prost(message, required, tag = "1")]
    pub(super) sent: Traffic,
    #[prost(message, required, tag = "2")]
    pub(super) received: Traffic,
    #[prost(message, required, tag = "3")]
    pub(super) drops: Drops,
    #[prost(uint64, tag = "4")]
    pub(super) duplicates: u64,
    #[prost(uint64, tag = "5")]
    pub(super) naks_sent: u64,
    #[prost(uint64, tag = "6")]
    pub(super) sequence_naks_sent: u64,
    #[prost(uint64, tag = "7")]
    pub(super) rnr_naks_sent: u64,
    #[prost(uint64, tag = "8")]
    pub(super) naks_received: u64,
    #[prost(uint64, tag = "9")]
    pub(super) sequence_naks_received: u64,
    #[prost(uint64, tag = "10")]
    pub(super) rnr_naks_received: u64,
    #[prost(uint64, tag = "11")]
    pub(super) retries: u64,
    #[prost(uint64, tag = "12")]
    pub(super) timeouts: u64,
    #[prost(uint64, tag = "13")]
    pub(super) congestion_received: u64,
    #[prost(uint64, tag = "14")]
    pub(super) congestion_sent: u64,
}
