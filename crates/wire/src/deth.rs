//! Datagram extended transport header (IBTA 5.2).

use crate::field::{be24, be32, put, put24};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::{Qkey, Qpn};

view! {
    /// View of a DETH.
    DethView[8] {
        /// Key that the receiving queue pair must have.
        qkey(b) -> Qkey { Qkey(be32(b, 0)) }
        /// Sender's queue pair.
        source(b) -> Qpn { Qpn::from_low_bits(be24(b, 5)) }
    }
}

/// Value of a DETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deth {
    /// Key that the receiving queue pair must have.
    pub qkey: Qkey,
    /// Sender's queue pair.
    pub source: Qpn,
}

impl Format for Deth {
    fixed_format!(DethView, "DETH");

    fn from_view(view: DethView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            qkey: view.qkey(),
            source: view.source(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.qkey.0.to_be_bytes());
        put24(buffer, 5, self.source.get());
    }
}
