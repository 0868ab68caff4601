//! SIDR_REP: reply to a request to resolve a service (IBTA 12.11.2).

use crate::cm::{PrivateData, ServiceId};
use crate::field::{be24, be32, be64, get, put, put24};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::{Qkey, Qpn};

/// Result of the request (IBTA 12.11.2). Other codes are legal refusals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SidrStatus(pub u8);

impl SidrStatus {
    /// Queue pair and key are valid.
    pub const OK: Self = Self(0);
    /// There is no listener for the service.
    pub const UNSUPPORTED: Self = Self(1);
    /// The listener refused.
    pub const REJECTED: Self = Self(2);
    /// No queue pair is free.
    pub const NO_QP: Self = Self(3);
}

/// Bytes of additional information.
const INFO_LEN: usize = 72;

view! {
    /// View of an SIDR_REP.
    SidrRepView[232] {
        /// Name of the request.
        request(b) -> u32 { be32(b, 0) }
        /// Result of the request.
        status(b) -> SidrStatus { SidrStatus(b[4]) }
        /// Bytes of additional information that are used.
        info_len(b) -> u8 { b[5] }
        /// Queue pair of the service.
        qpn(b) -> Qpn { Qpn::from_low_bits(be24(b, 8)) }
        /// The service that was requested.
        service(b) -> ServiceId { ServiceId(be64(b, 12)) }
        /// Key of the queue pair.
        qkey(b) -> Qkey { Qkey(be32(b, 20)) }
        /// Additional information.
        info(b) -> PrivateData<INFO_LEN> { PrivateData::from_array(get(b, 24)) }
        /// Private data.
        private_data(b) -> PrivateData<136> { PrivateData::from_array(get(b, 96)) }
    }
}

/// Value of an SIDR_REP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrRep {
    /// Name of the request.
    pub request: u32,
    /// Result of the request.
    pub status: SidrStatus,
    /// Bytes of additional information that are used.
    pub info_len: u8,
    /// Queue pair of the service.
    pub qpn: Qpn,
    /// The service that was requested.
    pub service: ServiceId,
    /// Key of the queue pair.
    pub qkey: Qkey,
    /// Additional information.
    pub info: PrivateData<INFO_LEN>,
    /// Private data.
    pub private_data: PrivateData<136>,
}

impl Format for SidrRep {
    fixed_format!(SidrRepView, "SIDR_REP");

    fn from_view(view: SidrRepView<'_>) -> Result<Self, Malformed> {
        if usize::from(view.info_len()) > INFO_LEN {
            return Err(Malformed::Length);
        }
        Ok(Self {
            request: view.request(),
            status: view.status(),
            info_len: view.info_len(),
            qpn: view.qpn(),
            service: view.service(),
            qkey: view.qkey(),
            info: view.info(),
            private_data: view.private_data(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.request.to_be_bytes());
        buffer[4] = self.status.0;
        buffer[5] = self.info_len;
        put24(buffer, 8, self.qpn.get());
        put(buffer, 12, self.service.0.to_be_bytes());
        put(buffer, 20, self.qkey.0.to_be_bytes());
        put(buffer, 24, *self.info.as_bytes());
        put(buffer, 96, *self.private_data.as_bytes());
    }
}
