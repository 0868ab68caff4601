//! Finding an adapter and opening it.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call;

/// Bytes of a name.
pub const NAME_BYTES: usize = 64;

/// A name: UTF-8, zero-padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Name(pub [u8; NAME_BYTES]);

impl Default for Name {
    fn default() -> Self {
        Self([0; NAME_BYTES])
    }
}

impl Name {
    /// `None` if it is too long.
    pub fn new(text: &str) -> Option<Self> {
        let mut name = Self::default();
        name.0
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        Some(name)
    }

    /// The text; empty if it is none.
    pub fn as_str(&self) -> &str {
        let end = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(NAME_BYTES);
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

/// Asks for one adapter that this user may open, counted from 0. `ENODEV` behind the last. Needs no
/// hello.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ListAdapter {
    /// Which.
    pub index: u32,
}
call!(ListAdapter = ListAdapter -> AdapterReply);

/// Asks for the adapter of a name. `ENODEV` if this user may open none of that name. Needs no hello.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct FindAdapter {
    /// Its name.
    pub name: Name,
}
call!(FindAdapter = FindAdapter -> AdapterReply);

/// An adapter.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AdapterReply {
    /// Its name, for the hello and `$VRDMA_ADAPTER`.
    pub name: Name,
    /// Its port group.
    pub portgroup: Name,
    /// Node GUID in the order of the wire.
    pub guid: [u8; 8],
    /// Its IP address, zero-extended if IPv4.
    pub ip: [u8; 16],
    /// Ethernet address.
    pub mac: [u8; 6],
    /// 4 or 6.
    pub ip_version: u8,
    /// Zero.
    pub reserved: u8,
}

/// First request of a connection that creates objects.
/// Errors: `EPROTONOSUPPORT` (version; the reply's version is the daemon's), `ENODEV` (no such
/// adapter, or no name given and not exactly one there), `EINVAL` (no memory descriptor),
/// `EBUSY` (too many clients), `EISCONN` (a second hello).
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Hello {
    /// [`crate::VERSION`].
    pub version: u32,
    /// [`hello_flag`](super::hello_flag).
    pub flags: u32,
    /// Which adapter; empty for the only one.
    pub adapter: Name,
    /// Address of 8 bytes of the client's memory that hold [`nonce`](Self::nonce) during the hello, so
    /// that the daemon can see whether descriptor and peer process are the same memory. 0: none.
    pub nonce_address: u64,
    /// Any value that is hard to guess.
    pub nonce: u64,
}
call!(Hello = Hello -> HelloReply);

/// The open adapter.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct HelloReply {
    /// The daemon's [`crate::VERSION`].
    pub version: u32,
    /// Bytes of the doorbell page.
    pub page_bytes: u32,
    /// Which adapter it is.
    pub adapter: AdapterReply,
}

/// What [`AsyncEvent::element`] names.
pub mod element {
    /// The port or device.
    pub const PORT: u32 = 0;
    /// A CQ by its cookie.
    pub const CQ: u32 = 1;
    /// A QP by its cookie.
    pub const QP: u32 = 2;
    /// An SRQ by its cookie.
    pub const SRQ: u32 = 3;
}

/// A record of the async event pipe.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AsyncEvent {
    /// `enum ibv_event_type`.
    pub event: u32,
    /// [`element`].
    pub element: u32,
    /// Cookie of the object; port number of a port.
    pub cookie: u64,
}
