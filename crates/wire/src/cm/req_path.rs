//! The path inside an REQ, primary or alternate (IBTA 12.6.5, 12.7.11).
//!
//! On RoCE the GIDs are the IP addresses, and the LIDs have no meaning.

use crate::address::Gid;
use crate::bits::Bits;
use crate::field::{be16, be32, flag, get, put};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::ip::TrafficClass;
use crate::ipv6::FlowLabel;

view! {
    /// View of a path.
    ReqPathView[44] {
        /// Local identifier of the sender's port.
        local_lid(b) -> u16 { be16(b, 0) }
        /// Local identifier of the receiver's port.
        remote_lid(b) -> u16 { be16(b, 2) }
        /// GID of the sender's port.
        local_gid(b) -> Gid { Gid(get(b, 4)) }
        /// GID of the receiver's port.
        remote_gid(b) -> Gid { Gid(get(b, 20)) }
        /// Flow label.
        flow_label(b) -> FlowLabel { FlowLabel::new(be32(b, 36) >> 12) }
        /// Code of the static rate.
        rate(b) -> Bits<6> { Bits::low(b[39]) }
        /// Traffic class.
        traffic_class(b) -> TrafficClass { TrafficClass(b[40]) }
        /// Hop limit.
        hop_limit(b) -> u8 { b[41] }
        /// Service level.
        service_level(b) -> Bits<4> { Bits::low(b[42] >> 4) }
        /// Whether both ports are in one subnet.
        subnet_local(b) -> bool { flag(b, 42, 3) }
        /// How long the sender waits for an acknowledgement, as a timeout code.
        ack_timeout(b) -> Bits<5> { Bits::low(b[43] >> 3) }
    }
}

/// Value of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReqPath {
    /// Local identifier of the sender's port.
    pub local_lid: u16,
    /// Local identifier of the receiver's port.
    pub remote_lid: u16,
    /// GID of the sender's port.
    pub local_gid: Gid,
    /// GID of the receiver's port.
    pub remote_gid: Gid,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Code of the static rate.
    pub rate: Bits<6>,
    /// Traffic class.
    pub traffic_class: TrafficClass,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level.
    pub service_level: Bits<4>,
    /// Whether both ports are in one subnet.
    pub subnet_local: bool,
    /// How long the sender waits for an acknowledgement, as a timeout code.
    pub ack_timeout: Bits<5>,
}

impl Format for ReqPath {
    fixed_format!(ReqPathView, "REQ path");

    fn from_view(view: ReqPathView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            local_lid: view.local_lid(),
            remote_lid: view.remote_lid(),
            local_gid: view.local_gid(),
            remote_gid: view.remote_gid(),
            flow_label: view.flow_label(),
            rate: view.rate(),
            traffic_class: view.traffic_class(),
            hop_limit: view.hop_limit(),
            service_level: view.service_level(),
            subnet_local: view.subnet_local(),
            ack_timeout: view.ack_timeout(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.local_lid.to_be_bytes());
        put(buffer, 2, self.remote_lid.to_be_bytes());
        put(buffer, 4, self.local_gid.0);
        put(buffer, 20, self.remote_gid.0);
        let label_and_rate = self.flow_label.get() << 12 | u32::from(self.rate.get());
        put(buffer, 36, label_and_rate.to_be_bytes());
        buffer[40] = self.traffic_class.0;
        buffer[41] = self.hop_limit;
        buffer[42] = self.service_level.get() << 4 | u8::from(self.subnet_local) << 3;
        buffer[43] = self.ack_timeout.get() << 3;
    }
}
