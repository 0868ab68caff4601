//! IPv4 (RFC 791).
//!
//! The view takes any correct header; the value only holds what RoCEv2 allows: no options, no fragments (annex
//! A17.3.1).

use core::net::Ipv4Addr;

use crate::field::{be16, flag, get, put};
use crate::format::{Format, Malformed, view};
use crate::ip::{TrafficClass, internet_checksum};

const MIN_LEN: usize = 20;

view! {
    /// View of an IPv4 packet whose lengths agree with each other and with the bytes.
    Ipv4View[_] {
        /// Bytes of the header, options included.
        header_len(b) -> usize { usize::from(b[0] & 15) * 4 }
        /// DSCP and ECN.
        traffic_class(b) -> TrafficClass { TrafficClass(b[1]) }
        /// Bytes of header and payload.
        total_len(b) -> usize { usize::from(be16(b, 2)) }
        /// Identification.
        identification(b) -> u16 { be16(b, 4) }
        /// Whether routers must not fragment the packet.
        dont_fragment(b) -> bool { flag(b, 6, 6) }
        /// Whether more fragments follow.
        more_fragments(b) -> bool { flag(b, 6, 5) }
        /// Offset of a fragment's payload in the whole packet, in units of eight bytes.
        fragment_offset(b) -> u16 { be16(b, 6) & 0x1fff }
        /// Time to live.
        ttl(b) -> u8 { b[8] }
        /// Protocol of the payload.
        protocol(b) -> u8 { b[9] }
        /// Header checksum as sent.
        checksum(b) -> u16 { be16(b, 10) }
        /// Source address.
        source(b) -> Ipv4Addr { Ipv4Addr::from(get(b, 12)) }
        /// Destination address.
        destination(b) -> Ipv4Addr { Ipv4Addr::from(get(b, 16)) }
    }
}

impl<'a> Ipv4View<'a> {
    /// Wraps a packet.
    ///
    /// # Errors
    /// The packet is short, has another version, or its lengths contradict each other.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let first = *bytes.first().ok_or(Malformed::Short)?;
        if first >> 4 != 4 {
            return Err(Malformed::Version);
        }
        if bytes.len() < MIN_LEN {
            return Err(Malformed::Short);
        }
        let view = Self(bytes);
        if view.header_len() < MIN_LEN || view.total_len() < view.header_len() {
            return Err(Malformed::Length);
        }
        if view.total_len() > bytes.len() {
            return Err(Malformed::Short);
        }
        Ok(view)
    }

    /// Returns the header's bytes, options included.
    pub fn header(self) -> &'a [u8] {
        &self.0[..self.header_len()]
    }

    /// Returns the payload that the header announces; the bytes after it are Ethernet padding.
    pub fn payload(self) -> &'a [u8] {
        &self.0[self.header_len()..self.total_len()]
    }

    /// Whether the header is unchanged since it was sent.
    pub fn checksum_matches(self) -> bool {
        internet_checksum(self.header()) == 0
    }
}

/// Value of an IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4 {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Identification.
    pub identification: u16,
    /// Whether routers must not fragment the packet.
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Bytes after the header, at most [`Ipv4::MAX_PAYLOAD`].
    pub payload_len: u16,
}

impl Ipv4 {
    /// Bytes of the header.
    pub const LEN: usize = MIN_LEN;

    /// Most bytes after the header, as the total length has 16 bits.
    pub const MAX_PAYLOAD: u16 = u16::MAX - MIN_LEN as u16;
}

impl Format for Ipv4 {
    type View<'a> = Ipv4View<'a>;

    const NAME: &'static str = "IPv4";

    fn view(bytes: &[u8]) -> Result<Ipv4View<'_>, Malformed> {
        Ipv4View::new(bytes)
    }

    fn from_view(view: Ipv4View<'_>) -> Result<Self, Malformed> {
        if !view.checksum_matches() {
            return Err(Malformed::Checksum);
        }
        let fragment = view.more_fragments() || view.fragment_offset() != 0;
        if view.header_len() != MIN_LEN || fragment {
            return Err(Malformed::Unsupported);
        }
        Ok(Self {
            source: view.source(),
            destination: view.destination(),
            traffic_class: view.traffic_class(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            ttl: view.ttl(),
            protocol: view.protocol(),
            payload_len: (view.total_len() - MIN_LEN) as u16,
        })
    }

    fn buffer_len(&self) -> usize {
        MIN_LEN
    }

    fn write(&self, buffer: &mut [u8]) {
        buffer[0] = 0x45;
        buffer[1] = self.traffic_class.0;
        put(buffer, 2, (self.payload_len + MIN_LEN as u16).to_be_bytes());
        put(buffer, 4, self.identification.to_be_bytes());
        buffer[6] = u8::from(self.dont_fragment) << 6;
        buffer[8] = self.ttl;
        buffer[9] = self.protocol;
        put(buffer, 12, self.source.octets());
        put(buffer, 16, self.destination.octets());
        let checksum = internet_checksum(buffer);
        put(buffer, 10, checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
