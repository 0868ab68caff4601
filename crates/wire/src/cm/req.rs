//! REQ: request for communication (IBTA 12.6.5).

use crate::bits::Bits;
use crate::cm::{CommId, PrivateData, ReqPath, ReqPathView, ServiceId};
use crate::field::{be16, be24, be32, be64, flag, get, put, put24};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::{Mtu, Pkey, Psn, Qkey, Qpn};

const PRIMARY: usize = 52;
const ALTERNATE: usize = PRIMARY + ReqPathView::LEN;

/// Kind of queue pairs to be connected (IBTA 12.7.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConnectionType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
}

view! {
    /// View of an REQ. Fields of reliable datagrams and XRC are not shown.
    ReqView[232] {
        /// Sender's name of the connection.
        local(b) -> CommId { CommId(be32(b, 0)) }
        /// The service that the sender wants.
        service(b) -> ServiceId { ServiceId(be64(b, 8)) }
        /// Sender's node GUID.
        guid(b) -> u64 { be64(b, 16) }
        /// Sender's key, for datagrams.
        qkey(b) -> Qkey { Qkey(be32(b, 28)) }
        /// Sender's queue pair.
        qpn(b) -> Qpn { Qpn::from_low_bits(be24(b, 32)) }
        /// READs and atomics that the sender answers concurrently.
        responder_resources(b) -> u8 { b[35] }
        /// READs and atomics that the sender may have outstanding.
        initiator_depth(b) -> u8 { b[39] }
        /// How long the receiver may take to answer, as a timeout code.
        remote_timeout(b) -> Bits<5> { Bits::low(b[43] >> 3) }
        /// Transport service: 0 reliable, 1 unreliable connection.
        service_type(b) -> Bits<2> { Bits::low(b[43] >> 1) }
        /// Whether the sender counts receives (credits).
        flow_control(b) -> bool { flag(b, 43, 0) }
        /// First PSN that the sender will use.
        psn(b) -> Psn { Psn::new(be24(b, 44)) }
        /// How long the sender may take to answer, as a timeout code.
        local_timeout(b) -> Bits<5> { Bits::low(b[47] >> 3) }
        /// How often a queue pair shall retry.
        retry_count(b) -> Bits<3> { Bits::low(b[47]) }
        /// Partition.
        pkey(b) -> Pkey { Pkey(be16(b, 48)) }
        /// Code of the path MTU.
        mtu(b) -> Bits<4> { Bits::low(b[50] >> 4) }
        /// How often the receiver shall retry when the sender is not ready; 7: for ever.
        rnr_retry(b) -> Bits<3> { Bits::low(b[50]) }
        /// How often the sender repeats an unanswered message.
        max_cm_retries(b) -> Bits<4> { Bits::low(b[51] >> 4) }
        /// Whether the sender's queue pair takes receives from a shared queue.
        srq(b) -> bool { flag(b, 51, 3) }
        /// The primary path.
        primary(b) -> ReqPathView<'a> { path(b, PRIMARY) }
        /// The path after a migration; all zero for none.
        alternate(b) -> ReqPathView<'a> { path(b, ALTERNATE) }
        /// Private data.
        private_data(b) -> PrivateData<92> { PrivateData::from_array(get(b, 140)) }
    }
}

fn path(bytes: &[u8; 232], at: usize) -> ReqPathView<'_> {
    ReqPathView::new(&bytes[at..]).expect("both paths lie inside the message")
}

/// Value of an REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Req {
    /// Sender's name of the connection.
    pub local: CommId,
    /// The service that the sender wants.
    pub service: ServiceId,
    /// Sender's node GUID.
    pub guid: u64,
    /// Sender's key, for datagrams.
    pub qkey: Qkey,
    /// Sender's queue pair.
    pub qpn: Qpn,
    /// READs and atomics that the sender answers concurrently.
    pub responder_resources: u8,
    /// READs and atomics that the sender may have outstanding.
    pub initiator_depth: u8,
    /// How long the receiver may take to answer, as a timeout code.
    pub remote_timeout: Bits<5>,
    /// Kind of queue pairs.
    pub connection: ConnectionType,
    /// Whether the sender counts receives (credits).
    pub flow_control: bool,
    /// First PSN that the sender will use.
    pub psn: Psn,
    /// How long the sender may take to answer, as a timeout code.
    pub local_timeout: Bits<5>,
    /// How often a queue pair shall retry.
    pub retry_count: Bits<3>,
    /// Partition.
    pub pkey: Pkey,
    /// Path MTU.
    pub mtu: Mtu,
    /// How often the receiver shall retry when the sender is not ready; 7: for ever.
    pub rnr_retry: Bits<3>,
    /// How often the sender repeats an unanswered message.
    pub max_cm_retries: Bits<4>,
    /// Whether the sender's queue pair takes receives from a shared queue.
    pub srq: bool,
    /// The primary path.
    pub primary: ReqPath,
    /// The path after a migration; a path of which every field is zero is none.
    pub alternate: Option<ReqPath>,
    /// Private data.
    pub private_data: PrivateData<92>,
}

impl ConnectionType {
    const fn from_bits(code: Bits<2>) -> Option<Self> {
        match code.get() {
            0 => Some(Self::Rc),
            1 => Some(Self::Uc),
            _ => None,
        }
    }
}

/// Parses the alternate path. A path of which no field is set is none; reserved bits do not make one.
fn alternate(view: ReqPathView<'_>) -> Result<Option<ReqPath>, Malformed> {
    let path = ReqPath::from_view(view)?;
    Ok((path != ReqPath::default()).then_some(path))
}

impl Format for Req {
    fixed_format!(ReqView, "REQ");

    fn from_view(view: ReqView<'_>) -> Result<Self, Malformed> {
        let connection = ConnectionType::from_bits(view.service_type());
        let mtu = Mtu::from_code(u32::from(view.mtu().get()));
        Ok(Self {
            local: view.local(),
            service: view.service(),
            guid: view.guid(),
            qkey: view.qkey(),
            qpn: view.qpn(),
            responder_resources: view.responder_resources(),
            initiator_depth: view.initiator_depth(),
            remote_timeout: view.remote_timeout(),
            connection: connection.ok_or(Malformed::Code)?,
            flow_control: view.flow_control(),
            psn: view.psn(),
            local_timeout: view.local_timeout(),
            retry_count: view.retry_count(),
            pkey: view.pkey(),
            mtu: mtu.ok_or(Malformed::Code)?,
            rnr_retry: view.rnr_retry(),
            max_cm_retries: view.max_cm_retries(),
            srq: view.srq(),
            primary: ReqPath::from_view(view.primary())?,
            alternate: alternate(view.alternate())?,
            private_data: view.private_data(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.local.0.to_be_bytes());
        put(buffer, 8, self.service.0.to_be_bytes());
        put(buffer, 16, self.guid.to_be_bytes());
        put(buffer, 28, self.qkey.0.to_be_bytes());
        put24(buffer, 32, self.qpn.get());
        buffer[35] = self.responder_resources;
        buffer[39] = self.initiator_depth;
        buffer[43] = self.remote_timeout.get() << 3
            | (self.connection as u8) << 1
            | u8::from(self.flow_control);
        put24(buffer, 44, self.psn.get());
        buffer[47] = self.local_timeout.get() << 3 | self.retry_count.get();
        put(buffer, 48, self.pkey.0.to_be_bytes());
        buffer[50] = (self.mtu.code() as u8) << 4 | self.rnr_retry.get();
        buffer[51] = self.max_cm_retries.get() << 4 | u8::from(self.srq) << 3;
        self.primary.emit(&mut buffer[PRIMARY..]);
        if let Some(alternate) = self.alternate {
            alternate.emit(&mut buffer[ALTERNATE..]);
        }
        put(buffer, 140, *self.private_data.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses an REQ that has zeros except for a path MTU and the given bytes.
    fn req(bytes: &[(usize, u8)]) -> Result<Req, Malformed> {
        let mut message = [0; 232];
        message[50] = 3 << 4;
        for &(at, byte) in bytes {
            message[at] = byte;
        }
        Req::parse(&message)
    }

    #[test]
    fn an_alternate_path_is_there_if_a_field_of_it_is() {
        let flow_label_and_reserved = ALTERNATE + 38;
        let alternate = |byte| req(&[(flow_label_and_reserved, byte)]).unwrap().alternate;
        assert_eq!(alternate(0), None);
        assert_eq!(alternate(0x0f), None, "reserved bits only");
        assert_eq!(alternate(0xf0).unwrap().flow_label.get(), 0xf);
    }

    #[test]
    fn codes_without_meaning_are_seen_but_not_parsed() {
        assert_eq!(
            req(&[(43, 2 << 1)]),
            Err(Malformed::Code),
            "transport service"
        );
        assert_eq!(req(&[(50, 6 << 4)]), Err(Malformed::Code), "path MTU");
    }
}
