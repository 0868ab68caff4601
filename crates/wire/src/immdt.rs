//! Immediate data (IBTA 5.2): four bytes for the receiver's completion.

use crate::field::{get, put};
use crate::format::{Format, Malformed, fixed_format, view};

view! {
    /// View of an ImmDt.
    ImmDtView[4] {
        /// The bytes; the application defines their order.
        data(b) -> [u8; 4] { get(b, 0) }
    }
}

/// Value of an ImmDt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImmDt(pub [u8; 4]);

impl Format for ImmDt {
    fixed_format!(ImmDtView, "ImmDt");

    fn from_view(view: ImmDtView<'_>) -> Result<Self, Malformed> {
        Ok(Self(view.data()))
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.0);
    }
}
