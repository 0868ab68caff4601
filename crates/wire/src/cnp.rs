//! Congestion notification packet (annex A17.9.3): a BTH with BECN set, then sixteen reserved bytes.

use crate::bth::Bth;
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::{Psn, Qpn};
use crate::opcode::Opcode;

view! {
    /// View of the bytes after the BTH of a CNP.
    CnpView[16] {
        /// Sent as zero, ignored on receipt.
        reserved(b) -> [u8; 16] { *b }
    }
}

/// Value of the bytes after the BTH of a CNP, which have no meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cnp;

impl Cnp {
    /// Returns the BTH that tells `destination` to slow down. Its PSN is zero and ignored.
    pub const fn bth(destination: Qpn) -> Bth {
        let mut bth = Bth::new(Opcode::CNP, destination, Psn::new(0));
        bth.becn = true;
        bth
    }
}

impl Format for Cnp {
    fixed_format!(CnpView, "CNP");

    fn from_view(_view: CnpView<'_>) -> Result<Self, Malformed> {
        Ok(Self)
    }

    fn write(&self, _buffer: &mut [u8]) {}
}
