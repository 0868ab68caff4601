//! MRA: message receipt acknowledgement (IBTA 12.6.6), sent when the answer will take longer.

use crate::bits::Bits;
use crate::cm::{About, CommId, PrivateData};
use crate::field::{be32, get, put};
use crate::format::{Format, Malformed, fixed_format, view};

view! {
    /// View of an MRA.
    MraView[232] {
        /// Sender's name of the connection.
        local(b) -> CommId { CommId(be32(b, 0)) }
        /// Receiver's name of the connection.
        remote(b) -> CommId { CommId(be32(b, 4)) }
        /// The message that arrived: 0 REQ, 1 REP, 2 LAP.
        about(b) -> Bits<2> { Bits::low(b[8] >> 6) }
        /// How long the answer may take, as a timeout code.
        service_timeout(b) -> Bits<5> { Bits::low(b[9] >> 3) }
        /// Private data.
        private_data(b) -> PrivateData<222> { PrivateData::from_array(get(b, 10)) }
    }
}

/// Value of an MRA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mra {
    /// Sender's name of the connection.
    pub local: CommId,
    /// Receiver's name of the connection.
    pub remote: CommId,
    /// The message that arrived.
    pub about: About,
    /// How long the answer may take, as a timeout code.
    pub service_timeout: Bits<5>,
    /// Private data.
    pub private_data: PrivateData<222>,
}

impl Format for Mra {
    fixed_format!(MraView, "MRA");

    fn from_view(view: MraView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            local: view.local(),
            remote: view.remote(),
            about: About::from_bits(view.about()).ok_or(Malformed::Code)?,
            service_timeout: view.service_timeout(),
            private_data: view.private_data(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.local.0.to_be_bytes());
        put(buffer, 4, self.remote.0.to_be_bytes());
        buffer[8] = (self.about as u8) << 6;
        buffer[9] = self.service_timeout.get() << 3;
        put(buffer, 10, *self.private_data.as_bytes());
    }
}
