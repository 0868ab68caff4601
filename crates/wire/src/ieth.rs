//! Invalidate extended transport header (IBTA 5.2).

use crate::field::{be32, put};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::Rkey;

view! {
    /// View of an IETH.
    IethView[4] {
        /// Key that the receiver shall invalidate.
        rkey(b) -> Rkey { Rkey(be32(b, 0)) }
    }
}

/// Value of an IETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ieth {
    /// Key that the receiver shall invalidate.
    pub rkey: Rkey,
}

impl Format for Ieth {
    fixed_format!(IethView, "IETH");

    fn from_view(view: IethView<'_>) -> Result<Self, Malformed> {
        Ok(Self { rkey: view.rkey() })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.rkey.0.to_be_bytes());
    }
}
