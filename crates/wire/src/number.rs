//! The numbers that name connections, keys and paths.

use core::fmt;

const MASK_24: u32 = 0x00ff_ffff;

/// Packet sequence number: a point on a circle of 2^24 (IBTA 9.2). It has an order only relative
/// to a window, so it has [`Psn::is_before`] and deliberately no `Ord`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// Takes the low 24 bits, like every field that carries a PSN.
    pub const fn new(value: u32) -> Self {
        Self(value & MASK_24)
    }

    /// The 24-bit value.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the PSN `count` packets later.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// Returns the number of packets from `earlier` to `self`, forward around the circle.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & MASK_24
    }

    /// Whether `self` lies in the half circle behind `other` (IBTA 9.7.1: the duplicate region).
    pub const fn is_before(self, other: Self) -> bool {
        let ahead = other.since(self);
        ahead != 0 && ahead <= MASK_24 >> 1
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

/// Queue pair number on the wire, 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// The general services interface: management datagrams of `rdma_cm` go here.
    pub const GSI: Self = Self(1);

    /// Every queue pair that is attached to the multicast group (IBTA 9.2.1).
    pub const MULTICAST: Self = Self(0xff_ffff);

    /// Makes a number; `None` if it does not fit 24 bits.
    pub const fn new(value: u32) -> Option<Self> {
        if value <= MASK_24 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// Takes the low 24 bits, like headers do.
    pub const fn from_low_bits(value: u32) -> Self {
        Self(value & MASK_24)
    }

    /// The 24-bit value.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Datagram access key. With bit 31 set in a work request the QP's own key is used (IBTA 3.5.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Qkey(pub u32);

impl Qkey {
    /// The well-known key of QP1.
    pub const GSI: Self = Self(0x8001_0000);

    /// Whether a work request with this key asks for the QP's own key.
    pub const fn is_privileged(self) -> bool {
        self.0 >> 31 == 1
    }
}

/// Partition key: 15 bits of partition and a bit for full membership (IBTA 10.9.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pkey(pub u16);

impl Pkey {
    /// Full member of the default partition, the only one that RoCE ports must have.
    pub const DEFAULT: Self = Self(0xffff);

    /// Whether holders of the two keys may communicate: one partition, not both limited members (IBTA 10.9.3).
    /// Partition 0 is invalid.
    pub const fn matches(self, other: Self) -> bool {
        let same = (self.0 ^ other.0) & 0x7fff == 0 && self.0 & 0x7fff != 0;
        same && (self.0 | other.0) >> 15 == 1
    }
}

macro_rules! memory_key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the table entry that the key names: its upper 24 bits.
            pub const fn index(self) -> u32 {
                self.0 >> 8
            }

            /// Returns the low 8 bits, which the owner of a fast-register region chooses.
            pub const fn variant(self) -> u8 {
                self.0 as u8
            }

            /// Builds the key `index << 8 | variant`.
            pub const fn from_parts(index: u32, variant: u8) -> Self {
                Self(index << 8 | variant as u32)
            }
        }
    };
}

memory_key! {
    /// Key with which a work request names local memory.
    Lkey
}
memory_key! {
    /// Key with which a peer names our memory.
    Rkey
}

/// Path MTU: payload bytes of one packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1024 bytes, the most that a 1500-byte Ethernet carries.
    #[default]
    B1024 = 3,
    /// 2048 bytes.
    B2048 = 4,
    /// 4096 bytes.
    B4096 = 5,
}

impl Mtu {
    /// Decodes the verbs' code 1 to 5.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::B256,
            2 => Self::B512,
            3 => Self::B1024,
            4 => Self::B2048,
            5 => Self::B4096,
            _ => return None,
        })
    }

    /// Returns the verbs' code 1 to 5.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Returns the payload bytes of one packet.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// Returns the packets that a message of `length` bytes takes; an empty message takes one (IBTA 9.7.2).
    pub const fn packets(self, length: u32) -> u32 {
        if length == 0 {
            1
        } else {
            length.div_ceil(self.bytes())
        }
    }
}

#[cfg(test)]
mod tests;
