//! Atomic acknowledge extended transport header (IBTA 5.2).

use crate::field::{be64, put};
use crate::format::{Format, Malformed, fixed_format, view};

view! {
    /// View of an AtomicAckETH.
    AtomicAckEthView[8] {
        /// The word's value before the operation.
        original(b) -> u64 { be64(b, 0) }
    }
}

/// Value of an AtomicAckETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicAckEth {
    /// The word's value before the operation.
    pub original: u64,
}

impl Format for AtomicAckEth {
    fixed_format!(AtomicAckEthView, "AtomicAckETH");

    fn from_view(view: AtomicAckEthView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            original: view.original(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.original.to_be_bytes());
    }
}
