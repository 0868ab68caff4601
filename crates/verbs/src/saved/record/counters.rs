//! Counters.

use prost::Message;

#[derive(Clone, Copy, PartialEq, Message)]
pub(in crate::saved) struct Traffic {
    #[prost(uint64, tag = "1")]
    pub(in crate::saved) sends: u64,
    #[prost(uint64, tag = "2")]
    pub(in crate::saved) writes: u64,
    #[prost(uint64, tag = "3")]
    pub(in crate::saved) reads: u64,
    #[prost(uint64, tag = "4")]
    pub(in crate::saved) atomics: u64,
    #[prost(uint64, tag = "5")]
    pub(in crate::saved) datagrams: u64,
    #[prost(uint64, tag = "6")]
    pub(in crate::saved) bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(in crate::saved) struct Drops {
    #[prost(uint64, tag = "1")]
    pub(in crate::saved) unknown_qp: u64,
    #[prost(uint64, tag = "2")]
    pub(in crate::saved) wrong_state: u64,
    #[prost(uint64, tag = "3")]
    pub(in crate::saved) wrong_peer: u64,
    #[prost(uint64, tag = "4")]
    pub(in crate::saved) unbound_gid: u64,
    #[prost(uint64, tag = "5")]
    pub(in crate::saved) wrong_qkey: u64,
    #[prost(uint64, tag = "6")]
    pub(in crate::saved) malformed: u64,
    #[prost(uint64, tag = "7")]
    pub(in crate::saved) no_receive: u64,
    #[prost(uint64, tag = "8")]
    pub(in crate::saved) out_of_sequence: u64,
    #[prost(uint64, tag = "9")]
    pub(in crate::saved) source_fault: u64,
    #[prost(uint64, tag = "10")]
    pub(in crate::saved) stale_response: u64,
    #[prost(uint64, tag = "11")]
    pub(in crate::saved) no_access: u64,
    #[prost(uint64, tag = "12")]
    pub(in crate::saved) wrong_pkey: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(in crate::saved) struct Counters {
    #[prost(message, required, tag = "1")]
    pub(in crate::saved) sent: Traffic,
    #[prost(message, required, tag = "2")]
    pub(in crate::saved) received: Traffic,
    #[prost(message, required, tag = "3")]
    pub(in crate::saved) drops: Drops,
    #[prost(uint64, tag = "4")]
    pub(in crate::saved) duplicates: u64,
    #[prost(uint64, tag = "5")]
    pub(in crate::saved) naks_sent: u64,
    #[prost(uint64, tag = "6")]
    pub(in crate::saved) sequence_naks_sent: u64,
    #[prost(uint64, tag = "7")]
    pub(in crate::saved) rnr_naks_sent: u64,
    #[prost(uint64, tag = "8")]
    pub(in crate::saved) naks_received: u64,
    #[prost(uint64, tag = "9")]
    pub(in crate::saved) sequence_naks_received: u64,
    #[prost(uint64, tag = "10")]
    pub(in crate::saved) rnr_naks_received: u64,
    #[prost(uint64, tag = "11")]
    pub(in crate::saved) retries: u64,
    #[prost(uint64, tag = "12")]
    pub(in crate::saved) timeouts: u64,
    #[prost(uint64, tag = "13")]
    pub(in crate::saved) congestion_received: u64,
    #[prost(uint64, tag = "14")]
    pub(in crate::saved) congestion_sent: u64,
}
