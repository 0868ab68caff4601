//! The records. A field's number never changes; a missing field has its default.

use prost::Message;

/// A client.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Client {
    #[prost(uint32, tag = "1")]
    pub(super) client: u32,
    #[prost(int32, tag = "2")]
    pub(super) socket: i32,
    /// The adapter by whose socket the client came.
    #[prost(string, optional, tag = "3")]
    pub(super) only: Option<String>,
    /// The adapter that the client wants; empty for all.
    #[prost(string, tag = "4")]
    pub(super) wants: String,
    /// The last number that the client was given.
    #[prost(uint64, tag = "5")]
    pub(super) last: u64,
}

/// The answer that a client was given last.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Answer {
    #[prost(uint32, tag = "1")]
    pub(super) client: u32,
    #[prost(uint32, tag = "2")]
    pub(super) code: u32,
    #[prost(uint32, tag = "3")]
    pub(super) number: u32,
    /// Errno of the answer; 0 for success.
    #[prost(int32, tag = "4")]
    pub(super) errno: i32,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) body: Vec<u8>,
    #[prost(int32, repeated, tag = "6")]
    pub(super) descriptors: Vec<i32>,
}

/// An event channel.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Channel {
    #[prost(uint32, tag = "1")]
    pub(super) client: u32,
    #[prost(uint64, tag = "2")]
    pub(super) channel: u64,
    #[prost(int32, tag = "3")]
    pub(super) pipe: i32,
}

/// An event that waits in a channel; those with lower numbers come first.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(uint32, tag = "1")]
    pub(super) client: u32,
    #[prost(uint64, tag = "2")]
    pub(super) channel: u64,
    #[prost(uint64, tag = "3")]
    pub(super) number: u64,
    /// Bytes of a [`vrdma_provider::cm::Event`].
    #[prost(bytes = "vec", tag = "4")]
    pub(super) event: Vec<u8>,
}

/// A group that was joined.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Group {
    #[prost(uint32, tag = "1")]
    pub(super) client: u32,
    #[prost(uint64, tag = "2")]
    pub(super) group: u64,
    #[prost(uint64, tag = "3")]
    pub(super) id: u64,
}

/// An identifier.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Identifier {
    #[prost(uint32, tag = "1")]
    pub(super) client: u32,
    #[prost(uint64, tag = "2")]
    pub(super) id: u64,
    #[prost(uint64, tag = "3")]
    pub(super) channel: u64,
    #[prost(uint32, tag = "4")]
    pub(super) space: u32,
    #[prost(uint32, tag = "5")]
    pub(super) qp_type: u32,
    #[prost(uint32, tag = "6")]
    pub(super) stage: u32,
    #[prost(message, required, tag = "7")]
    pub(super) options: Options,
    /// Bytes of a [`vrdma_provider::cm::Route`].
    #[prost(bytes = "vec", tag = "8")]
    pub(super) route: Vec<u8>,
    /// The adapter that the identifier is bound to; empty for one that is gone.
    #[prost(string, optional, tag = "9")]
    pub(super) adapter: Option<String>,
    #[prost(message, optional, tag = "10")]
    pub(super) claim: Option<Claim>,
    /// Most connection requests that may wait, if the identifier listens.
    #[prost(uint32, optional, tag = "11")]
    pub(super) backlog: Option<u32>,
    /// Name of its connection at that adapter.
    #[prost(fixed32, optional, tag = "12")]
    pub(super) connection: Option<u32>,
    /// Bytes of a [`vrdma_cm::Link`] and a [`vrdma_cm::Side`].
    #[prost(bytes = "vec", tag = "13")]
    pub(super) link: Vec<u8>,
    #[prost(bytes = "vec", tag = "14")]
    pub(super) local: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "15")]
    pub(super) remote: Option<Vec<u8>>,
    #[prost(message, optional, tag = "16")]
    pub(super) search: Option<Search>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Options {
    #[prost(uint32, tag = "1")]
    pub(super) traffic_class: u32,
    #[prost(bool, tag = "2")]
    pub(super) reuse_address: bool,
    #[prost(bool, tag = "3")]
    pub(super) family_only: bool,
    #[prost(uint32, tag = "4")]
    pub(super) ack_timeout: u32,
}

/// The claim of an identifier to its port: at the adapter with that address, or at all that it may use.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Claim {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) address: Option<Vec<u8>>,
    #[prost(uint32, tag = "2")]
    pub(super) family: u32,
    #[prost(bool, tag = "3")]
    pub(super) family_only: bool,
    #[prost(bool, tag = "4")]
    pub(super) shared: bool,
}

/// An address that is being resolved.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Search {
    #[prost(string, tag = "1")]
    pub(super) adapter: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) sgid: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) dgid: Vec<u8>,
    /// Bytes of a [`vrdma_provider::cm::Endpoint`].
    #[prost(bytes = "vec", tag = "4")]
    pub(super) remote: Vec<u8>,
    #[prost(uint64, tag = "5")]
    pub(super) patience_ms: u64,
}

/// A queue pair that is the answer to SIDR requests.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Offer {
    #[prost(uint32, tag = "1")]
    pub(super) client: u32,
    #[prost(uint64, tag = "2")]
    pub(super) id: u64,
    #[prost(string, tag = "3")]
    pub(super) adapter: String,
    #[prost(uint32, tag = "4")]
    pub(super) qpn: u32,
    #[prost(fixed32, tag = "5")]
    pub(super) qkey: u32,
}

/// A connection or SIDR request of an adapter's manager ([`vrdma_cm::Cm::save`]).
#[derive(Clone, PartialEq, Message)]
pub(super) struct Connection {
    #[prost(string, tag = "1")]
    pub(super) adapter: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) saved: Vec<u8>,
}

/// A datagram that may not have been sent.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Datagram {
    #[prost(string, tag = "1")]
    pub(super) adapter: String,
    #[prost(uint64, tag = "2")]
    pub(super) number: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) local: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) remote: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) bytes: Vec<u8>,
}
