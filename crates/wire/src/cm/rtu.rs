//! RTU: ready to use (IBTA 12.6.9): the active side has received the REP.

use crate::cm::{CommId, PrivateData};
use crate::field::{be32, get, put};
use crate::format::{Format, Malformed, fixed_format, view};

view! {
    /// View of an RTU.
    RtuView[232] {
        /// Sender's name of the connection.
        local(b) -> CommId { CommId(be32(b, 0)) }
        /// Receiver's name of the connection.
        remote(b) -> CommId { CommId(be32(b, 4)) }
        /// Private data.
        private_data(b) -> PrivateData<224> { PrivateData::from_array(get(b, 8)) }
    }
}

/// Value of an RTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtu {
    /// Sender's name of the connection.
    pub local: CommId,
    /// Receiver's name of the connection.
    pub remote: CommId,
    /// Private data.
    pub private_data: PrivateData<224>,
}

impl Format for Rtu {
    fixed_format!(RtuView, "RTU");

    fn from_view(view: RtuView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            local: view.local(),
            remote: view.remote(),
            private_data: view.private_data(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.local.0.to_be_bytes());
        put(buffer, 4, self.remote.0.to_be_bytes());
        put(buffer, 8, *self.private_data.as_bytes());
    }
}
