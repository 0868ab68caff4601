//! DREQ: request for disconnection (IBTA 12.6.10).

use crate::cm::{CommId, PrivateData};
use crate::field::{be24, be32, get, put, put24};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::Qpn;

view! {
    /// View of a DREQ.
    DreqView[232] {
        /// Sender's name of the connection.
        local(b) -> CommId { CommId(be32(b, 0)) }
        /// Receiver's name of the connection.
        remote(b) -> CommId { CommId(be32(b, 4)) }
        /// Receiver's queue pair.
        remote_qpn(b) -> Qpn { Qpn::from_low_bits(be24(b, 8)) }
        /// Private data.
        private_data(b) -> PrivateData<220> { PrivateData::from_array(get(b, 12)) }
    }
}

/// Value of a DREQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dreq {
    /// Sender's name of the connection.
    pub local: CommId,
    /// Receiver's name of the connection.
    pub remote: CommId,
    /// Receiver's queue pair.
    pub remote_qpn: Qpn,
    /// Private data.
    pub private_data: PrivateData<220>,
}

impl Format for Dreq {
    fixed_format!(DreqView, "DREQ");

    fn from_view(view: DreqView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            local: view.local(),
            remote: view.remote(),
            remote_qpn: view.remote_qpn(),
            private_data: view.private_data(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.local.0.to_be_bytes());
        put(buffer, 4, self.remote.0.to_be_bytes());
        put24(buffer, 8, self.remote_qpn.get());
        put(buffer, 12, *self.private_data.as_bytes());
    }
}
