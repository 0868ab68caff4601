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
    /// Makes a name; `None` if the text is too long.
    pub fn new(text: &str) -> Option<Self> {
        let mut name = Self::default();
        name.0
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        Some(name)
    }

    /// The text; empty if it is not UTF-8.
    pub fn as_str(&self) -> &str {
        let end = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(NAME_BYTES);
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

/// Asks for one of the adapters that this user may open, counted from 0. `ENODEV` after the last. Needs no hello.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ListAdapter {
    /// Number of the adapter.
    pub index: u32,
}
call!(ListAdapter = ListAdapter -> AdapterReply);

/// Asks for an adapter by name. `ENODEV` if this user may open no adapter of that name. Needs no hello.
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
    /// Node GUID in network byte order.
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
    /// Bits of [`hello_flag`](super::hello_flag).
    pub flags: u32,
    /// Name of the adapter; empty for the only one.
    pub adapter: Name,
    /// Address of 8 bytes of the client's memory that hold [`nonce`](Self::nonce) during the hello: they show the
    /// daemon whether the descriptor is the memory of the peer process. 0: none.
    pub nonce_address: u64,
    /// Any value that is hard to guess.
    pub nonce: u64,
}
call!(Hello = Hello -> HelloReply);

/// The opened adapter.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct HelloReply {
    /// The daemon's [`crate::VERSION`].
    pub version: u32,
    /// Bytes of the doorbell page.
    pub page_bytes: u32,
    /// The adapter.
    pub adapter: AdapterReply,
}

/// Values of [`AsyncEvent::element`]: the kind of object.
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
    /// One of [`element`].
    pub element: u32,
    /// Cookie of the object, or the port number.
    pub cookie: u64,
}
