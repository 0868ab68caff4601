//! SIDR_REQ: request to resolve a service to a datagram queue pair (IBTA 12.11.1).

use crate::cm::{PrivateData, ServiceId};
use crate::field::{be16, be32, be64, get, put};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::Pkey;

view! {
    /// View of an SIDR_REQ.
    SidrReqView[232] {
        /// Name of the request.
        request(b) -> u32 { be32(b, 0) }
        /// Partition.
        pkey(b) -> Pkey { Pkey(be16(b, 4)) }
        /// The service that the sender wants.
        service(b) -> ServiceId { ServiceId(be64(b, 8)) }
        /// Private data.
        private_data(b) -> PrivateData<216> { PrivateData::from_array(get(b, 16)) }
    }
}

/// Value of an SIDR_REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrReq {
    /// Name of the request.
    pub request: u32,
    /// Partition.
    pub pkey: Pkey,
    /// The service that the sender wants.
    pub service: ServiceId,
    /// Private data.
    pub private_data: PrivateData<216>,
}

impl Format for SidrReq {
    fixed_format!(SidrReqView, "SIDR_REQ");

    fn from_view(view: SidrReqView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            request: view.request(),
            pkey: view.pkey(),
            service: view.service(),
            private_data: view.private_data(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.request.to_be_bytes());
        put(buffer, 4, self.pkey.0.to_be_bytes());
        put(buffer, 8, self.service.0.to_be_bytes());
        put(buffer, 16, *self.private_data.as_bytes());
    }
}
