//! RDMA extended transport header (IBTA 5.2): the memory of a WRITE or READ.

use crate::field::{be32, be64, put};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::Rkey;

view! {
    /// View of a RETH.
    RethView[16] {
        /// Address in the responder's memory.
        address(b) -> u64 { be64(b, 0) }
        /// Key of that memory.
        rkey(b) -> Rkey { Rkey(be32(b, 8)) }
        /// Bytes of the whole message.
        length(b) -> u32 { be32(b, 12) }
    }
}

/// Value of a RETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reth {
    /// Address in the responder's memory.
    pub address: u64,
    /// Key of that memory.
    pub rkey: Rkey,
    /// Bytes of the whole message. More than 2^31 is an invalid request (IBTA 9.4.3), which the responder answers, so
    /// the value can hold it.
    pub length: u32,
}

impl Format for Reth {
    fixed_format!(RethView, "RETH");

    fn from_view(view: RethView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            address: view.address(),
            rkey: view.rkey(),
            length: view.length(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.address.to_be_bytes());
        put(buffer, 8, self.rkey.0.to_be_bytes());
        put(buffer, 12, self.length.to_be_bytes());
    }
}
