//! The records. A field keeps its number for ever; a field that is missing has its default.

use alloc::vec::Vec;

use prost::{Message, Oneof};

/// A connection, or a question for a datagram service.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Saved {
    #[prost(oneof = "What", tags = "1, 2")]
    pub(super) what: Option<What>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum What {
    #[prost(message, tag = "1")]
    Connection(Connection),
    #[prost(message, tag = "2")]
    Question(Question),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Ends {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) local: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) remote: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Connection {
    #[prost(fixed32, tag = "1")]
    pub(super) local: u32,
    #[prost(fixed32, tag = "2")]
    pub(super) remote: u32,
    #[prost(message, required, tag = "3")]
    pub(super) ends: Ends,
    #[prost(uint32, tag = "4")]
    pub(super) state: u32,
    #[prost(fixed64, tag = "5")]
    pub(super) transaction: u64,
    #[prost(message, required, tag = "6")]
    pub(super) link: Link,
    #[prost(message, optional, tag = "7")]
    pub(super) peer: Option<Side>,
    #[prost(uint32, tag = "8")]
    pub(super) patience: u32,
    #[prost(uint32, tag = "9")]
    pub(super) retries: u32,
    /// The message to be repeated, as a datagram without the zeros at its end.
    #[prost(bytes = "vec", tag = "10")]
    pub(super) last: Vec<u8>,
    /// The service of a call whose listener has not answered.
    #[prost(fixed64, optional, tag = "11")]
    pub(super) waits_for: Option<u64>,
    #[prost(bool, tag = "12")]
    pub(super) owned: bool,
    #[prost(bool, tag = "13")]
    pub(super) half_open: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Link {
    #[prost(uint32, tag = "1")]
    pub(super) mtu: u32,
    #[prost(uint32, tag = "2")]
    pub(super) ack_timeout: u32,
    #[prost(uint32, tag = "3")]
    pub(super) retry_count: u32,
    #[prost(uint32, tag = "4")]
    pub(super) traffic_class: u32,
    #[prost(uint32, tag = "5")]
    pub(super) flow_label: u32,
    #[prost(uint32, tag = "6")]
    pub(super) hop_limit: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Side {
    #[prost(uint32, tag = "1")]
    pub(super) qpn: u32,
    #[prost(uint32, tag = "2")]
    pub(super) psn: u32,
    #[prost(uint32, tag = "3")]
    pub(super) responder_resources: u32,
    #[prost(uint32, tag = "4")]
    pub(super) initiator_depth: u32,
    #[prost(bool, tag = "5")]
    pub(super) flow_control: bool,
    #[prost(uint32, tag = "6")]
    pub(super) rnr_retry: u32,
    #[prost(bool, tag = "7")]
    pub(super) srq: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Question {
    #[prost(fixed32, tag = "1")]
    pub(super) id: u32,
    #[prost(fixed32, tag = "2")]
    pub(super) request: u32,
    #[prost(message, required, tag = "3")]
    pub(super) ends: Ends,
    /// The datagram, as in messages but without the zeros at its end.
    #[prost(bytes = "vec", tag = "4")]
    pub(super) datagram: Vec<u8>,
    #[prost(uint32, tag = "5")]
    pub(super) stage: u32,
    #[prost(uint32, tag = "6")]
    pub(super) repeats: u32,
}
