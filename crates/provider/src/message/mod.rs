//! Control messages: fixed layouts, one request and one reply at a time.
//!
//! ```text
//!   packet   Header { code, errno } | body, its size given by the code
//! ```
//!
//! Codes from [`CM_CODES`] on belong to connection management.

mod adoption;
mod code;
mod device;
mod fast;
mod memory;
mod qp;
mod queue;
mod session;

pub use adoption::Adoption;
pub use code::{CM_CODES, Code};
pub use device::{DeviceReply, GidReply, PortReply, QueryDevice, QueryGid, QueryPort};
pub use fast::{Reach, Reached, hello_flag};
pub use memory::{
    AllocMw, AllocPd, DeallocMw, DeallocPd, DeregMr, FileRange, MrReply, MwReply, PdReply, RegMr,
    ReregMr, Userfaultfd, access,
};
pub use qp::{
    AttachMcast, CreateQp, DestroyQp, DetachMcast, ModifyQp, QpAttributes, QpCapacity, QpReply,
    QueryQp, QueryQpReply, qp_type,
};
pub use queue::{
    ChannelReply, CqReply, CreateChannel, CreateCq, CreateSrq, DestroyChannel, DestroyCq,
    DestroySrq, ModifySrq, NO_CHANNEL, QuerySrq, QueueGeometry, ResizeCq, SrqReply, SrqState,
    srq_mask,
};
pub use session::{
    AdapterReply, AsyncEvent, FindAdapter, Hello, HelloReply, ListAdapter, NAME_BYTES, Name,
    element,
};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most descriptors with one message.
pub const FDS_MAX: usize = 4;

/// Longest packet.
pub const PACKET_MAX: usize = 1024;

/// Start of every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// Code of the request; the reply repeats it.
    pub code: u16,
    /// Number of the request, different from that of the request before; the reply repeats it. A restarted daemon may
    /// repeat an answer that was given before.
    pub number: u16,
    /// Linux errno; 0 in requests and successful replies. A reply with an errno has no body.
    pub errno: u32,
}

impl Header {
    /// Makes the header of a request.
    pub fn of<T: Call>(number: u16) -> Self {
        Self {
            code: T::CODE as u16,
            number,
            errno: 0,
        }
    }
}

/// Plain bytes that both ends lay out alike.
pub trait Body: FromBytes + IntoBytes + Immutable + KnownLayout + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Copy> Body for T {}

/// A request: its code, and the type of its reply.
pub trait Call: Body {
    /// The request's code in the header.
    const CODE: u32;
    /// Body of the reply.
    type Reply: Body;
}

/// A reply without contents.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Done {}

/// Gives a request type its code and reply type.
macro_rules! call {
    ($request:ty = $code:ident -> $reply:ty) => {
        impl $crate::message::Call for $request {
            const CODE: u32 = $crate::message::Code::$code as u32;
            type Reply = $reply;
        }
    };
}
pub(crate) use call;

/// Encodes a packet: `out` gets header and body.
///
/// # Panics
/// If the body is longer than [`PACKET_MAX`] allows, which no message of this crate is.
pub fn encode<'a, T: Body>(header: Header, body: &T, out: &'a mut [u8; PACKET_MAX]) -> &'a [u8] {
    let (head, length) = (size_of::<Header>(), size_of::<Header>() + size_of::<T>());
    out[..head].copy_from_slice(header.as_bytes());
    out[head..length].copy_from_slice(body.as_bytes());
    &out[..length]
}

/// Splits a packet into header and body; `None` if it is too short for a header.
pub fn split(packet: &[u8]) -> Option<(Header, &[u8])> {
    Header::read_from_prefix(packet).ok()
}

/// Reads the body of a message; `None` if it does not have exactly the right size.
pub fn parse<T: Body>(body: &[u8]) -> Option<T> {
    T::read_from_bytes(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_apart_as_it_was_put_together() {
        let mut buffer = [0; PACKET_MAX];
        let body = RegMr {
            address: 7,
            length: 9,
            ..RegMr::default()
        };
        let packet = encode(Header::of::<RegMr>(5), &body, &mut buffer);
        let (header, rest) = split(packet).unwrap();
        assert_eq!((header.code, header.errno), (Code::RegMr as u16, 0));
        assert_eq!(header.number, 5);
        assert_eq!(parse::<RegMr>(rest), Some(body));
        assert_eq!(parse::<RegMr>(&rest[1..]), None);
        assert_eq!(split(&packet[..7]), None);
    }

    #[test]
    fn every_code_is_found_by_its_number() {
        for number in 0..CM_CODES {
            if let Some(code) = Code::from_number(number) {
                assert_eq!(code as u32, number);
            }
        }
        assert_eq!(Code::from_number(CM_CODES), None);
    }

    #[test]
    fn messages_fit_a_packet() {
        let largest = [
            size_of::<QueryQpReply>(),
            size_of::<CreateQp>(),
            size_of::<DeviceReply>(),
            size_of::<HelloReply>(),
            size_of::<AdapterReply>(),
        ];
        assert!(
            largest
                .iter()
                .all(|bytes| bytes + size_of::<Header>() <= PACKET_MAX)
        );
    }
}
