//! A whole RoCEv2 packet, Ethernet to ICRC (annex A17.3).
//!
//! ```text
//!   | Ethernet (VLAN) | IPv4 or IPv6 | UDP 4791 | BTH | extensions | payload | pad | ICRC | padding |
//!                     '--- checked by ICRC, some fields masked ---------------'
//! ```
//! The checks here need only the packet (IBTA 9.6.1). Its queue pair, partition and PSN are checked by the rooms that
//! know them.

use crate::address::Gid;
use crate::bth::{Bth, BthView};
use crate::ethernet::EthernetView;
use crate::extension::Extension;
use crate::format::Format;
use crate::icrc::Icrc;
use crate::ip::Ecn;
use crate::network::IpView;
use crate::number::Mtu;
use crate::opcode::OpcodeInfo;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::transport::Transport;
use crate::udp::{ROCE_PORT, UdpView};

/// Largest payload of one packet: the largest path MTU (IBTA 5.2.12).
pub const MAX_PAYLOAD: usize = Mtu::B4096.bytes() as usize;

/// View of a packet whose headers are all whole, allowed, and agree with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    ethernet: EthernetView<'a>,
    ip: IpView<'a>,
    udp: UdpView<'a>,
    transport: Transport,
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Takes a frame apart and verifies its ICRC.
    ///
    /// # Errors
    /// The first reason found, outermost header first.
    pub fn parse(frame: &'a [u8]) -> Result<Self, Refusal> {
        let packet = Self::dissect(frame)?;
        if packet.icrc_matches() {
            Ok(packet)
        } else {
            Err(Refusal::Icrc)
        }
    }

    /// Takes a frame apart without checking the ICRC: for callers that verify it while they copy the payload, and for
    /// logs.
    ///
    /// # Errors
    /// The first reason found, outermost header first.
    pub fn dissect(frame: &'a [u8]) -> Result<Self, Refusal> {
        let ethernet = EthernetView::new(frame).map_err(|_| Refusal::Truncated)?;
        let ip = IpView::of_udp(ethernet)?;
        let udp = roce_datagram(ip)?;
        let (transport, payload) = dissect_transport(udp.payload())?;
        Ok(Self {
            ethernet,
            ip,
            udp,
            transport,
            payload,
        })
    }

    /// Returns the Ethernet header.
    pub fn ethernet(&self) -> EthernetView<'a> {
        self.ethernet
    }

    /// Returns the IP header.
    pub fn ip(&self) -> IpView<'a> {
        self.ip
    }

    /// Returns the BTH and extension headers.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Returns the BTH.
    pub fn bth(&self) -> &Bth {
        self.transport.bth()
    }

    /// Returns the extension headers.
    pub fn extension(&self) -> &Extension {
        self.transport.extension()
    }

    /// Returns the table's row of the opcode.
    pub fn info(&self) -> &'static OpcodeInfo {
        self.transport.info()
    }

    /// Returns the payload without padding.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns the source address.
    pub fn sgid(&self) -> Gid {
        self.ip.sgid()
    }

    /// Returns the destination address.
    pub fn dgid(&self) -> Gid {
        self.ip.dgid()
    }

    /// Whether a router marked the packet: its receiver owes the sender a CNP (annex A17.9).
    pub fn met_congestion(&self) -> bool {
        self.ip.traffic_class().ecn() == Ecn::Experienced
    }

    /// Returns the ICRC as received.
    pub fn icrc(&self) -> [u8; Icrc::LEN] {
        *self.split_icrc().1
    }

    /// Returns a CRC that has taken in everything before the payload; payload and [`Packet::padding`] have to follow.
    pub fn begin_icrc(&self) -> Icrc {
        let mut icrc = Icrc::new(self.headers());
        icrc.update(&self.udp.payload()[Bth::LEN..self.transport.header_len()]);
        icrc
    }

    /// Returns the bytes between payload and ICRC.
    pub fn padding(&self) -> &'a [u8] {
        &self.split_icrc().0[self.transport.header_len() + self.payload.len()..]
    }

    /// Whether the packet is unchanged since it was sent.
    pub fn icrc_matches(&self) -> bool {
        let mut icrc = Icrc::new(self.headers());
        icrc.update(&self.split_icrc().0[Bth::LEN..]);
        icrc.finish() == self.icrc()
    }

    /// Returns the path on which the packet came.
    pub fn path(&self) -> Path {
        Path::of(self.ethernet, self.ip, self.udp.source())
    }

    /// Returns IP header, UDP header and BTH, which are adjacent.
    fn headers(&self) -> &'a [u8] {
        let ip = self.ip.header();
        let len = ip.len() + self.udp.header().len() + Bth::LEN;
        &self.ethernet.payload()[..len]
    }

    /// Returns everything from the BTH on, split before the ICRC.
    fn split_icrc(&self) -> (&'a [u8], &'a [u8; Icrc::LEN]) {
        let split = self.udp.payload().split_last_chunk();
        split.expect("dissect_transport has seen the ICRC")
    }
}

/// Returns the datagram inside, if it is for RoCEv2. The port is checked first: a fragment or a broken datagram of
/// other traffic must reach its owner unchanged.
fn roce_datagram(ip: IpView<'_>) -> Result<UdpView<'_>, Refusal> {
    if ip.udp_port() != Some(ROCE_PORT) {
        return Err(Refusal::OtherTraffic);
    }
    ip.check()?;
    let udp = UdpView::new(ip.payload()).map_err(|_| Refusal::UdpLength)?;
    if udp.total_len() != ip.payload().len() {
        return Err(Refusal::UdpLength);
    }
    Ok(udp)
}

fn dissect_transport(bytes: &[u8]) -> Result<(Transport, &[u8]), Refusal> {
    let view = BthView::new(bytes).map_err(|_| Refusal::Truncated)?;
    let bth = Bth::from_view(view).map_err(|_| Refusal::BthVersion)?;
    let info = bth.opcode.info().ok_or(Refusal::Opcode)?;
    let (covered, _icrc) = bytes
        .split_last_chunk::<{ Icrc::LEN }>()
        .ok_or(Refusal::Truncated)?;
    let rest = covered.get(Bth::LEN..).ok_or(Refusal::Truncated)?;
    let extension = Extension::parse(info.carries, rest).map_err(|_| Refusal::Truncated)?;
    let payload = unpad(&rest[info.carries.len()..], &bth)?;
    check_payload(payload, info)?;
    let transport = Transport::new(bth, extension).expect("parsed as the table says");
    Ok((transport, payload))
}

/// Removes the padding (IBTA 9.2).
fn unpad<'a>(padded: &'a [u8], bth: &Bth) -> Result<&'a [u8], Refusal> {
    let len = padded.len().checked_sub(usize::from(bth.pad.get()));
    match len {
        Some(len) if padded.len().is_multiple_of(4) => Ok(&padded[..len]),
        _ => Err(Refusal::Padding),
    }
}

fn check_payload(payload: &[u8], info: &OpcodeInfo) -> Result<(), Refusal> {
    if payload.len() > MAX_PAYLOAD {
        Err(Refusal::Oversized)
    } else if !info.payload && !payload.is_empty() {
        Err(Refusal::UnexpectedPayload)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
