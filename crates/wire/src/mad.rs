//! Management datagrams: the common header (IBTA 13.4.3).

use crate::bits::Bits;
use crate::field::{be16, be32, be64, flag, put};
use crate::format::{Format, Malformed, fixed_format, view};

/// Bytes of every management datagram (IBTA 13.4.2).
pub const MAD_LEN: usize = 256;

/// Class of a datagram, which says who handles it (IBTA 13.4.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MadClass(pub u8);

impl MadClass {
    /// Subnet administration; without a subnet manager only its multicast joins have a meaning.
    pub const SUBNET_ADMINISTRATION: Self = Self(0x03);
    /// Communication management.
    pub const COMMUNICATION: Self = Self(0x07);
}

view! {
    /// View of a MAD header.
    MadView[24] {
        /// Version of the header, which is 1.
        base_version(b) -> u8 { b[0] }
        /// Class of the datagram.
        class(b) -> MadClass { MadClass(b[1]) }
        /// Version of the class.
        class_version(b) -> u8 { b[2] }
        /// Whether it answers a request.
        response(b) -> bool { flag(b, 3, 7) }
        /// Method: what is to be done.
        method(b) -> Bits<7> { Bits::low(b[3]) }
        /// Result of a request.
        status(b) -> u16 { be16(b, 4) }
        /// Two bytes whose meaning the class defines.
        class_specific(b) -> u16 { be16(b, 6) }
        /// Number that is the same in a request and its answer.
        transaction(b) -> u64 { be64(b, 8) }
        /// Attribute: what the method applies to.
        attribute(b) -> u16 { be16(b, 16) }
        /// Modifier: which one of these attributes.
        modifier(b) -> u32 { be32(b, 20) }
    }
}

/// Value of a MAD header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mad {
    /// Class of the datagram.
    pub class: MadClass,
    /// Version of the class.
    pub class_version: u8,
    /// Whether it answers a request.
    pub response: bool,
    /// Method: what is to be done.
    pub method: Bits<7>,
    /// Result of a request.
    pub status: u16,
    /// Two bytes whose meaning the class defines.
    pub class_specific: u16,
    /// Number that is the same in a request and its answer.
    pub transaction: u64,
    /// Attribute: what the method applies to.
    pub attribute: u16,
    /// Modifier: which one of these attributes.
    pub modifier: u32,
}

impl Mad {
    /// Bytes of the header.
    pub const LEN: usize = MadView::LEN;
}

impl Format for Mad {
    fixed_format!(MadView, "MAD");

    fn from_view(view: MadView<'_>) -> Result<Self, Malformed> {
        if view.base_version() != 1 {
            return Err(Malformed::Version);
        }
        Ok(Self {
            class: view.class(),
            class_version: view.class_version(),
            response: view.response(),
            method: view.method(),
            status: view.status(),
            class_specific: view.class_specific(),
            transaction: view.transaction(),
            attribute: view.attribute(),
            modifier: view.modifier(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        buffer[0] = 1;
        buffer[1] = self.class.0;
        buffer[2] = self.class_version;
        buffer[3] = u8::from(self.response) << 7 | self.method.get();
        put(buffer, 4, self.status.to_be_bytes());
        put(buffer, 6, self.class_specific.to_be_bytes());
        put(buffer, 8, self.transaction.to_be_bytes());
        put(buffer, 16, self.attribute.to_be_bytes());
        put(buffer, 20, self.modifier.to_be_bytes());
    }
}
