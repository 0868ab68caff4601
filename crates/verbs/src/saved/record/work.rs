//! Work requests.

use alloc::vec::Vec;

use prost::Message;

use crate::saved::record::Address;

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Sge {
    #[prost(uint64, tag = "1")]
    pub(in crate::saved) addr: u64,
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) length: u32,
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) lkey: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Receive {
    #[prost(uint64, tag = "1")]
    pub(in crate::saved) id: u64,
    #[prost(message, repeated, tag = "2")]
    pub(in crate::saved) sges: Vec<Sge>,
    /// If not 0, the request was undecodable and completes with this status.
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) refused: u32,
}

/// A send work request. `op` determines which of the optional fields count.
#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Send {
    #[prost(uint64, tag = "1")]
    pub(in crate::saved) id: u64,
    /// 0 SEND, 1 with immediate, 2 with invalidate, 3 WRITE, 4 with immediate, 5 READ, 6 compare
    /// and swap, 7 fetch and add, 8 local invalidate, 9 fast register, 10 refused, 11 bind a window.
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) op: u32,
    #[prost(bool, tag = "3")]
    pub(in crate::saved) fence: bool,
    #[prost(bool, tag = "4")]
    pub(in crate::saved) signaled: bool,
    #[prost(bool, tag = "5")]
    pub(in crate::saved) solicited: bool,
    #[prost(message, repeated, tag = "6")]
    pub(in crate::saved) sges: Vec<Sge>,
    #[prost(message, optional, tag = "7")]
    pub(in crate::saved) datagram: Option<Datagram>,
    /// Immediate data, in the order of the wire.
    #[prost(fixed32, tag = "8")]
    pub(in crate::saved) imm: u32,
    /// The peer's key, or the key to invalidate or fill.
    #[prost(uint32, tag = "9")]
    pub(in crate::saved) key: u32,
    /// The peer's address.
    #[prost(uint64, tag = "10")]
    pub(in crate::saved) addr: u64,
    /// Compare value or addend.
    #[prost(uint64, tag = "11")]
    pub(in crate::saved) operand: u64,
    #[prost(uint64, tag = "12")]
    pub(in crate::saved) swap: u64,
    #[prost(message, optional, tag = "13")]
    pub(in crate::saved) fill: Option<Fill>,
    /// Status with which a refused request completes.
    #[prost(uint32, tag = "14")]
    pub(in crate::saved) status: u32,
    #[prost(message, optional, tag = "15")]
    pub(in crate::saved) bind: Option<Bind>,
    /// Payload in place of buffers.
    #[prost(bytes = "vec", optional, tag = "16")]
    pub(in crate::saved) inline: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Datagram {
    #[prost(uint32, tag = "1")]
    pub(in crate::saved) qpn: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::saved) qkey: u32,
    #[prost(message, required, tag = "3")]
    pub(in crate::saved) address: Address,
}

/// Parameters of a window's bind.
#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Bind {
    #[prost(uint32, tag = "1")]
    pub(in crate::saved) region: u32,
    #[prost(uint64, tag = "2")]
    pub(in crate::saved) start: u64,
    #[prost(uint64, tag = "3")]
    pub(in crate::saved) length: u64,
    #[prost(uint32, tag = "4")]
    pub(in crate::saved) access: u32,
    #[prost(bool, tag = "5")]
    pub(in crate::saved) zero_based: bool,
}

/// Contents of a fast-register region.
#[derive(Clone, PartialEq, Message)]
pub(in crate::saved) struct Fill {
    #[prost(uint64, tag = "1")]
    pub(in crate::saved) start: u64,
    #[prost(uint64, tag = "2")]
    pub(in crate::saved) length: u64,
    #[prost(uint32, tag = "3")]
    pub(in crate::saved) access: u32,
    #[prost(uint32, tag = "4")]
    pub(in crate::saved) pages: u32,
    #[prost(bytes = "vec", tag = "5")]
    pub(in crate::saved) region: Vec<u8>,
}
