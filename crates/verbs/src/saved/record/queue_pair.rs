//! Queue pairs, and the work that is under way on them.

use alloc::vec::Vec;

use prost::Message;
use vrdma_wire::Qpn;

use crate::names::Name;
use crate::saved::record::{Receive, Send};

const GSI: u32 = Qpn::GSI.get();

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Qp {
    #[prost(uint32, tag = "1")]
    pub(in crate::saved) id: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) qpn: u32,
    /// 0 GSI, 1 RC, 2 UD, 3 UC.
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) qp_type: u32,
    #[prost(uint32, tag = "4")]
    pub(in crate::saved) pd: u32,
    #[prost(uint32, tag = "5")]
    pub(in crate::saved) send_cq: u32,
    #[prost(uint32, tag = "6")]
    pub(in crate::saved) recv_cq: u32,
    #[prost(uint32, optional, tag = "7")]
    pub(in crate::saved) srq: Option<u32>,
    #[prost(bool, tag = "8")]
    pub(in crate::saved) signal_all: bool,
    #[prost(message, required, tag = "9")]
    pub(in crate::saved) attr: Attr,
    #[prost(message, required, tag = "10")]
    pub(in crate::saved) requester: Requester,
    #[prost(message, required, tag = "11")]
    pub(in crate::saved) responder: Responder,
    #[prost(bool, tag = "12")]
    pub(in crate::saved) block_own_multicast: bool,
    #[prost(message, optional, tag = "13")]
    pub(in crate::saved) capacity: Option<Capacity>,
}

impl Qp {
    /// Returns the name of its slot, which is checked when it is restored. The name of the GSI has no meaning.
    pub(in crate::saved) fn name(&self) -> Name {
        match self.qpn {
            GSI => Name::NONE,
            number => Name::new(number, 0),
        }
    }
}

/// Sizes of the queues as their owner knows them.
#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Capacity {
    #[prost(uint32, tag = "1")]
    pub(in crate::saved) send_wrs: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) recv_wrs: u32,
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) send_sges: u32,
    #[prost(uint32, tag = "4")]
    pub(in crate::saved) recv_sges: u32,
    #[prost(uint32, tag = "5")]
    pub(in crate::saved) inline_bytes: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Attr {
    #[prost(uint32, tag = "1")]
    pub(in crate::saved) state: u32,
    #[prost(bool, tag = "2")]
    pub(in crate::saved) sqd_event: bool,
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) access: u32,
    #[prost(uint32, tag = "4")]
    pub(in crate::saved) pkey_index: u32,
    #[prost(uint32, tag = "5")]
    pub(in crate::saved) port: u32,
    #[prost(uint32, tag = "6")]
    pub(in crate::saved) qkey: u32,
    #[prost(message, required, tag = "7")]
    pub(in crate::saved) address: Address,
    #[prost(uint32, tag = "8")]
    pub(in crate::saved) path_mtu: u32,
    #[prost(uint32, tag = "9")]
    pub(in crate::saved) timeout: u32,
    #[prost(uint32, tag = "10")]
    pub(in crate::saved) retry_count: u32,
    #[prost(uint32, tag = "11")]
    pub(in crate::saved) rnr_retry: u32,
    #[prost(uint32, tag = "12")]
    pub(in crate::saved) rq_psn: u32,
    #[prost(uint32, tag = "13")]
    pub(in crate::saved) sq_psn: u32,
    #[prost(uint32, tag = "14")]
    pub(in crate::saved) max_rd_atomic: u32,
    #[prost(uint32, tag = "15")]
    pub(in crate::saved) max_dest_rd_atomic: u32,
    #[prost(uint32, tag = "16")]
    pub(in crate::saved) min_rnr_timer: u32,
    #[prost(uint32, tag = "17")]
    pub(in crate::saved) dest_qpn: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Address {
    #[prost(bytes = "vec", tag = "1")]
    pub(in crate::saved) dgid: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) sgid_index: u32,
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) hop_limit: u32,
    #[prost(uint32, tag = "4")]
    pub(in crate::saved) traffic_class: u32,
    #[prost(uint32, tag = "5")]
    pub(in crate::saved) flow_label: u32,
    #[prost(uint32, tag = "6")]
    pub(in crate::saved) sl: u32,
    #[prost(uint32, tag = "7")]
    pub(in crate::saved) port: u32,
    #[prost(bytes = "vec", tag = "8")]
    pub(in crate::saved) dmac: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Requester {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::saved) queue: Vec<Pending>,
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) unacked: u32,
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) retries: u32,
    #[prost(uint32, tag = "4")]
    pub(in crate::saved) rnr_retries: u32,
    /// Whether an event is due when the queue is drained.
    #[prost(bool, tag = "5")]
    pub(in crate::saved) drain_event: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Pending {
    #[prost(message, required, tag = "1")]
    pub(in crate::saved) work: Send,
    /// 0 posted, 1 started, 2 done, 3 failed.
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) phase: u32,
    /// Status with which it failed.
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) status: u32,
    #[prost(uint32, tag = "4")]
    pub(in crate::saved) length: u32,
    #[prost(uint32, tag = "5")]
    pub(in crate::saved) first: u32,
    #[prost(uint32, tag = "6")]
    pub(in crate::saved) packets: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Responder {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::saved) queue: Vec<Receive>,
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) expected: u32,
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) msn: u32,
    #[prost(bool, tag = "4")]
    pub(in crate::saved) told: bool,
    #[prost(bool, tag = "5")]
    pub(in crate::saved) established: bool,
    /// State of a SEND under way.
    #[prost(message, optional, tag = "6")]
    pub(in crate::saved) send: Option<SendUnderWay>,
    /// State of a WRITE under way.
    #[prost(message, optional, tag = "7")]
    pub(in crate::saved) write: Option<WriteUnderWay>,
    #[prost(message, repeated, tag = "8")]
    pub(in crate::saved) replays: Vec<Replay>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct SendUnderWay {
    #[prost(message, required, tag = "1")]
    pub(in crate::saved) receive: Receive,
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) stored: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct WriteUnderWay {
    #[prost(uint64, tag = "1")]
    pub(in crate::saved) addr: u64,
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) rkey: u32,
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) left: u32,
    #[prost(uint32, tag = "4")]
    pub(in crate::saved) length: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Replay {
    #[prost(uint32, tag = "1")]
    pub(in crate::saved) psn: u32,
    #[prost(uint64, tag = "2")]
    pub(in crate::saved) old: u64,
}
