//! Management datagrams: the common header (IBTA 13.4.3).

use crate::bits::Bits;
use crate::field::{be16, be32, be64, flag, put};
use crate::format::{Format, Malformed, fixed_format, view};

/// Bytes of every management datagram (IBTA 13.4.2).
pub const MAD_LEN: usize = 256;

/// Whose datagram it is (IBTA 13.4.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MadClass(pub u8);

impl MadClass {
    /// Subnet administration; without a subnet manager only its multicast joins mean anything.
    pub const SUBNET_ADMINISTRATION: Self = Self(0x03);
    /// Communication management.
    pub const COMMUNICATION: Self = Self(0x07);
}

view! {
    /// View of a MAD header.
    MadView[24] {
        /// Version of the header; 1.
        base_version(b) -> u8 { b[0] }
        /// Whose datagram it is.
        class(b) -> MadClass { MadClass(b[1]) }
        /// Version of that class.
        class_version(b) -> u8 { b[2] }
        /// Answers a request.
        response(b) -> bool { flag(b, 3, 7) }
        /// What is to be done.
        method(b) -> Bits<7> { Bits::low(b[3]) }
        /// How it went.
        status(b) -> u16 { be16(b, 4) }
        /// Two bytes of the class.
        class_specific(b) -> u16 { be16(b, 6) }
        /// Pairs answers with requests.
        transaction(b) -> u64 { be64(b, 8) }
        /// What it is about.
        attribute(b) -> u16 { be16(b, 16) }
        /// Which one of those.
        modifier(b) -> u32 { be32(b, 20) }
    }
}

/// Value of a MAD header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mad {
    /// Whose datagram it is.
    pub class: MadClass,
    /// Version of that class.
    pub class_version: u8,
    /// Answers a request.
    pub response: bool,
    /// What is to be done.
    pub method: Bits<7>,
    /// How it went.
    pub status: u16,
    /// Two bytes of the class.
    pub class_specific: u16,
    /// Pairs answers with requests.
    pub transaction: u64,
    /// What it is about.
    pub attribute: u16,
    /// Which one of those.
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
