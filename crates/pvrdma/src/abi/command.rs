//! The command channel: codes, headers and slots (`PVRDMA_CMD_*`).

use super::{U32, U64};

/// Bytes of the command slot that the driver fills: the largest request.
pub const REQUEST_BYTES: usize = 184;
/// Bytes of the response slot that the driver reads: the largest response.
pub const RESPONSE_BYTES: usize = 176;
/// Bytes of the header of a request and of a response.
pub const HEADER_BYTES: usize = 16;
/// A response's `ack` is this plus the command's code.
pub const ACK: u32 = 0x8000_0000;

shared! {
    /// Header of a request.
    pub struct RequestHeader {
        /// Cookie, echoed in the response.
        pub response: U64,
        /// A [`Command`].
        pub command: U32,
        /// Unused.
        pub reserved: U32,
    }

    /// Header of a response.
    pub struct ResponseHeader {
        /// The request's cookie.
        pub response: U64,
        /// [`ACK`] plus the command's code, or 0 after a failure.
        pub ack: U32,
        /// 0, or an errno.
        pub error: u8,
        /// Unused.
        pub reserved: [u8; 3],
    }
}

/// Commands, by their codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are the driver's")]
pub enum Command {
    QueryPort = 0,
    QueryPkey = 1,
    CreatePd = 2,
    DestroyPd = 3,
    CreateMr = 4,
    DestroyMr = 5,
    CreateCq = 6,
    ResizeCq = 7,
    DestroyCq = 8,
    CreateQp = 9,
    ModifyQp = 10,
    QueryQp = 11,
    DestroyQp = 12,
    CreateUc = 13,
    DestroyUc = 14,
    CreateBind = 15,
    DestroyBind = 16,
    CreateSrq = 17,
    ModifySrq = 18,
    QuerySrq = 19,
    DestroySrq = 20,
}
