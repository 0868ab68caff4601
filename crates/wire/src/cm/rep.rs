//! REP: reply to a request for communication (IBTA 12.6.8).

use crate::bits::Bits;
use crate::cm::{CommId, PrivateData};
use crate::field::{be24, be32, be64, flag, get, put, put24};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::{Psn, Qkey, Qpn};

view! {
    /// View of an REP.
    RepView[232] {
        /// Sender's name of the connection.
        local(b) -> CommId { CommId(be32(b, 0)) }
        /// Receiver's name of the connection.
        remote(b) -> CommId { CommId(be32(b, 4)) }
        /// Sender's key, for datagrams.
        qkey(b) -> Qkey { Qkey(be32(b, 8)) }
        /// Sender's queue pair.
        qpn(b) -> Qpn { Qpn::from_low_bits(be24(b, 12)) }
        /// First PSN that the sender will use.
        psn(b) -> Psn { Psn::new(be24(b, 20)) }
        /// READs and atomics that the sender answers concurrently.
        responder_resources(b) -> u8 { b[24] }
        /// READs and atomics that the sender may have outstanding.
        initiator_depth(b) -> u8 { b[25] }
        /// Longest time until the sender acknowledges, as a timeout code.
        ack_delay(b) -> Bits<5> { Bits::low(b[26] >> 3) }
        /// Result for the alternate path; 1: not supported.
        failover(b) -> Bits<2> { Bits::low(b[26] >> 1) }
        /// Whether the sender counts receives (credits).
        flow_control(b) -> bool { flag(b, 26, 0) }
        /// How often the receiver shall retry when the sender is not ready; 7: for ever.
        rnr_retry(b) -> Bits<3> { Bits::low(b[27] >> 5) }
        /// Whether the sender's queue pair takes receives from a shared queue.
        srq(b) -> bool { flag(b, 27, 4) }
        /// Sender's node GUID.
        guid(b) -> u64 { be64(b, 28) }
        /// Private data.
        private_data(b) -> PrivateData<196> { PrivateData::from_array(get(b, 36)) }
    }
}

/// Value of an REP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rep {
    /// Sender's name of the connection.
    pub local: CommId,
    /// Receiver's name of the connection.
    pub remote: CommId,
    /// Sender's key, for datagrams.
    pub qkey: Qkey,
    /// Sender's queue pair.
    pub qpn: Qpn,
    /// First PSN that the sender will use.
    pub psn: Psn,
    /// READs and atomics that the sender answers concurrently.
    pub responder_resources: u8,
    /// READs and atomics that the sender may have outstanding.
    pub initiator_depth: u8,
    /// Longest time until the sender acknowledges, as a timeout code.
    pub ack_delay: Bits<5>,
    /// Result for the alternate path; 1: not supported.
    pub failover: Bits<2>,
    /// Whether the sender counts receives (credits).
    pub flow_control: bool,
    /// How often the receiver shall retry when the sender is not ready; 7: for ever.
    pub rnr_retry: Bits<3>,
    /// Whether the sender's queue pair takes receives from a shared queue.
    pub srq: bool,
    /// Sender's node GUID.
    pub guid: u64,
    /// Private data.
    pub private_data: PrivateData<196>,
}

impl Format for Rep {
    fixed_format!(RepView, "REP");

    fn from_view(view: RepView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            local: view.local(),
            remote: view.remote(),
            qkey: view.qkey(),
            qpn: view.qpn(),
            psn: view.psn(),
            responder_resources: view.responder_resources(),
            initiator_depth: view.initiator_depth(),
            ack_delay: view.ack_delay(),
            failover: view.failover(),
            flow_control: view.flow_control(),
            rnr_retry: view.rnr_retry(),
            srq: view.srq(),
            guid: view.guid(),
            private_data: view.private_data(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.local.0.to_be_bytes());
        put(buffer, 4, self.remote.0.to_be_bytes());
        put(buffer, 8, self.qkey.0.to_be_bytes());
        put24(buffer, 12, self.qpn.get());
        put24(buffer, 20, self.psn.get());
        buffer[24] = self.responder_resources;
        buffer[25] = self.initiator_depth;
        buffer[26] =
            self.ack_delay.get() << 3 | self.failover.get() << 1 | u8::from(self.flow_control);
        buffer[27] = self.rnr_retry.get() << 5 | u8::from(self.srq) << 4;
        put(buffer, 28, self.guid.to_be_bytes());
        put(buffer, 36, *self.private_data.as_bytes());
    }
}
