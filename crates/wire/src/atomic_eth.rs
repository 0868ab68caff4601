//! Atomic extended transport header (IBTA 5.2).

use crate::field::{be32, be64, put};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::Rkey;

view! {
    /// View of an AtomicETH.
    AtomicEthView[28] {
        /// Address of the 64-bit word.
        address(b) -> u64 { be64(b, 0) }
        /// Key of that memory.
        rkey(b) -> Rkey { Rkey(be32(b, 8)) }
        /// New value of a compare and swap, addend of a fetch and add.
        swap_or_add(b) -> u64 { be64(b, 12) }
        /// Expected value of a compare and swap.
        compare(b) -> u64 { be64(b, 20) }
    }
}

/// Value of an AtomicETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicEth {
    /// Address of the 64-bit word. One that is not aligned is an invalid request (IBTA 9.4.5).
    pub address: u64,
    /// Key of that memory.
    pub rkey: Rkey,
    /// New value of a compare and swap, addend of a fetch and add.
    pub swap_or_add: u64,
    /// Expected value of a compare and swap; ignored by a fetch and add.
    pub compare: u64,
}

impl Format for AtomicEth {
    fixed_format!(AtomicEthView, "AtomicETH");

    fn from_view(view: AtomicEthView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            address: view.address(),
            rkey: view.rkey(),
            swap_or_add: view.swap_or_add(),
            compare: view.compare(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.address.to_be_bytes());
        put(buffer, 8, self.rkey.0.to_be_bytes());
        put(buffer, 12, self.swap_or_add.to_be_bytes());
        put(buffer, 20, self.compare.to_be_bytes());
    }
}
