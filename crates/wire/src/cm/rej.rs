//! REJ: rejection of a message, and with it of the connection (IBTA 12.6.7).

use crate::bits::Bits;
use crate::cm::{About, CommId, PrivateData};
use crate::field::{be16, be32, get, put};
use crate::format::{Format, Malformed, fixed_format, view};

/// Reason of a rejection (IBTA 12.6.7.2). Other codes are legal; only those that this project meets have names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RejectReason(pub u16);

impl RejectReason {
    /// No queue pair is free.
    pub const NO_QP: Self = Self(1);
    /// The other side did not answer.
    pub const TIMEOUT: Self = Self(4);
    /// The transport service is not supported.
    pub const UNSUPPORTED: Self = Self(5);
    /// There is no room for more.
    pub const NO_RESOURCES: Self = Self(3);
    /// There is no listener for the service.
    pub const INVALID_SERVICE: Self = Self(8);
    /// The connection that the message refers to is already gone.
    pub const STALE: Self = Self(10);
    /// The listener refused; the private data says more.
    pub const CONSUMER: Self = Self(28);
}

/// Bytes of additional information; their meaning depends on the reason (IBTA 12.6.7.2).
const INFO_LEN: usize = 72;

view! {
    /// View of an REJ.
    RejView[232] {
        /// Sender's name of the connection; zero if it has none.
        local(b) -> CommId { CommId(be32(b, 0)) }
        /// Receiver's name of the connection.
        remote(b) -> CommId { CommId(be32(b, 4)) }
        /// The message that is rejected: 0 REQ, 1 REP, 2 none.
        about(b) -> Bits<2> { Bits::low(b[8] >> 6) }
        /// Bytes of additional information that are used.
        info_len(b) -> Bits<7> { Bits::low(b[9] >> 1) }
        /// Reason of the rejection.
        reason(b) -> RejectReason { RejectReason(be16(b, 10)) }
        /// Additional information.
        info(b) -> PrivateData<INFO_LEN> { PrivateData::from_array(get(b, 12)) }
        /// Private data.
        private_data(b) -> PrivateData<148> { PrivateData::from_array(get(b, 84)) }
    }
}

/// Value of an REJ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rej {
    /// Sender's name of the connection; zero if it has none.
    pub local: CommId,
    /// Receiver's name of the connection.
    pub remote: CommId,
    /// The message that is rejected.
    pub about: About,
    /// Bytes of additional information that are used.
    pub info_len: Bits<7>,
    /// Reason of the rejection.
    pub reason: RejectReason,
    /// Additional information.
    pub info: PrivateData<INFO_LEN>,
    /// Private data.
    pub private_data: PrivateData<148>,
}

impl Format for Rej {
    fixed_format!(RejView, "REJ");

    fn from_view(view: RejView<'_>) -> Result<Self, Malformed> {
        if usize::from(view.info_len().get()) > INFO_LEN {
            return Err(Malformed::Length);
        }
        Ok(Self {
            local: view.local(),
            remote: view.remote(),
            about: About::from_bits(view.about()).ok_or(Malformed::Code)?,
            info_len: view.info_len(),
            reason: view.reason(),
            info: view.info(),
            private_data: view.private_data(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.local.0.to_be_bytes());
        put(buffer, 4, self.remote.0.to_be_bytes());
        buffer[8] = (self.about as u8) << 6;
        buffer[9] = self.info_len.get() << 1;
        put(buffer, 10, self.reason.0.to_be_bytes());
        put(buffer, 12, *self.info.as_bytes());
        put(buffer, 84, *self.private_data.as_bytes());
    }
}
