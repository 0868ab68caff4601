//! The records. A field's number never changes; a missing field has its default.

use prost::Message;

/// The adapter.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Adapter {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// The engine without objects ([`vrdma_verbs::saved`]).
    #[prost(bytes = "vec", tag = "2")]
    pub(super) frame: Vec<u8>,
}

/// A client: the numbers of its descriptors, and the contents of its hello.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Context {
    #[prost(uint32, tag = "1")]
    pub(super) owner: u32,
    #[prost(int32, tag = "2")]
    pub(super) socket: i32,
    #[prost(int32, tag = "3")]
    pub(super) memory: i32,
    #[prost(int32, tag = "4")]
    pub(super) doorbell_page: i32,
    #[prost(int32, tag = "5")]
    pub(super) doorbell_event: i32,
    #[prost(int32, tag = "6")]
    pub(super) events: i32,
    #[prost(int32, optional, tag = "7")]
    pub(super) grants: Option<i32>,
    #[prost(uint64, tag = "8")]
    pub(super) nonce_address: u64,
    #[prost(fixed64, tag = "9")]
    pub(super) nonce: u64,
    /// The adapter by whose socket the client came.
    #[prost(string, optional, tag = "10")]
    pub(super) only: Option<String>,
    #[prost(bool, tag = "11")]
    pub(super) encloses: bool,
}

impl Context {
    /// All descriptors of the client.
    pub(super) fn descriptors(&self) -> Vec<i32> {
        let always = [
            self.socket,
            self.memory,
            self.doorbell_page,
            self.doorbell_event,
            self.events,
        ];
        always.into_iter().chain(self.grants).collect()
    }
}

/// The answer that a client was given last.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Answer {
    #[prost(uint32, tag = "1")]
    pub(super) code: u32,
    #[prost(uint32, tag = "2")]
    pub(super) number: u32,
    /// Errno of the answer; 0 for success.
    #[prost(int32, tag = "3")]
    pub(super) errno: i32,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) body: Vec<u8>,
    #[prost(int32, repeated, tag = "5")]
    pub(super) descriptors: Vec<i32>,
}

/// A completion channel.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Channel {
    #[prost(uint32, tag = "1")]
    pub(super) owner: u32,
    #[prost(uint32, tag = "2")]
    pub(super) channel: u32,
    #[prost(int32, tag = "3")]
    pub(super) pipe: i32,
}

/// The place of a region: its name in the engine's record of the region.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RegionRecord {
    #[prost(uint32, tag = "1")]
    pub(super) owner: u32,
    /// The region's slot.
    #[prost(uint32, tag = "5")]
    pub(super) id: u32,
    #[prost(oneof = "Backing", tags = "2, 3, 4, 6")]
    pub(super) backing: Option<Backing>,
    /// Whether the client has adopted the region, or why not.
    #[prost(uint32, tag = "7")]
    pub(super) adoption: u32,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Backing {
    #[prost(message, tag = "2")]
    Client(Client),
    #[prost(message, tag = "3")]
    File(File),
    /// The data area of a queue pair.
    #[prost(uint32, tag = "4")]
    Data(u32),
    #[prost(message, tag = "6")]
    Partly(Partly),
}

/// Reached by its addresses, except a part that is a file.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Partly {
    #[prost(message, required, tag = "1")]
    pub(super) client: Client,
    #[prost(message, required, tag = "2")]
    pub(super) file: File,
    /// Offset in the region at which the file begins.
    #[prost(uint64, tag = "3")]
    pub(super) start: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Client {
    #[prost(uint64, tag = "1")]
    pub(super) address: u64,
    #[prost(uint64, tag = "2")]
    pub(super) length: u64,
    /// Whether the client's process may put messages in place.
    #[prost(bool, tag = "3")]
    pub(super) is_filled_by_owner: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct File {
    #[prost(int32, tag = "1")]
    pub(super) descriptor: i32,
    #[prost(uint64, tag = "2")]
    pub(super) offset: u64,
    #[prost(uint64, tag = "3")]
    pub(super) length: u64,
    /// Offset of the region in the mapped range.
    #[prost(uint64, tag = "4")]
    pub(super) lead: u64,
    #[prost(bool, tag = "5")]
    pub(super) writable: bool,
}

/// A completion queue.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Cq {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) engine: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(super) owner: u32,
    #[prost(int32, tag = "3")]
    pub(super) area: i32,
    #[prost(uint32, tag = "4")]
    pub(super) entries: u32,
    #[prost(uint32, optional, tag = "5")]
    pub(super) channel: Option<u32>,
    #[prost(uint64, tag = "6")]
    pub(super) cookie: u64,
    /// Whether its area has room for messages.
    #[prost(bool, tag = "7")]
    pub(super) encloses: bool,
    /// Offset of its area in the file.
    #[prost(uint32, tag = "8")]
    pub(super) offset: u32,
}

/// A shared receive queue.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Srq {
    #[prost(uint32, tag = "1")]
    pub(super) owner: u32,
    #[prost(int32, tag = "2")]
    pub(super) area: i32,
    #[prost(uint32, tag = "3")]
    pub(super) slots: u32,
    #[prost(uint32, tag = "4")]
    pub(super) max_sge: u32,
    #[prost(uint64, tag = "5")]
    pub(super) cookie: u64,
    /// Offset of its area in the file.
    #[prost(uint32, tag = "6")]
    pub(super) offset: u32,
}

/// The state of a shared receive queue that changes with messages.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SrqProgress {
    #[prost(uint32, tag = "1")]
    pub(super) released: u32,
    #[prost(uint32, tag = "2")]
    pub(super) limit: u32,
    #[prost(bool, tag = "3")]
    pub(super) dead: bool,
    /// The engine's record, with the receives that are staged.
    #[prost(bytes = "vec", tag = "4")]
    pub(super) engine: Vec<u8>,
}

/// A queue pair.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Qp {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) engine: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(super) owner: u32,
    #[prost(int32, tag = "3")]
    pub(super) area: i32,
    #[prost(uint32, repeated, tag = "4")]
    pub(super) capacity: Vec<u32>,
    #[prost(bool, tag = "5")]
    pub(super) has_srq: bool,
    #[prost(uint64, tag = "6")]
    pub(super) cookie: u64,
    #[prost(uint32, tag = "7")]
    pub(super) doorbell: u32,
    /// The region for its data area.
    #[prost(uint32, tag = "8")]
    pub(super) data: u32,
    #[prost(uint32, tag = "9")]
    pub(super) data_key: u32,
    #[prost(uint32, tag = "10")]
    pub(super) id: u32,
    /// Offset of its area in the file.
    #[prost(uint32, tag = "11")]
    pub(super) offset: u32,
}
