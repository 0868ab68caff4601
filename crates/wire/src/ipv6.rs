//! IPv6 (RFC 8200).
//!
//! Extension headers are not followed: RoCEv2 has none (annex A17.3.1), so the next-header code of a packet that has
//! one marks it as other traffic.

use core::net::Ipv6Addr;

use crate::field::{be16, be32, get, put};
use crate::format::{Format, Malformed, view};
use crate::ip::TrafficClass;

const LEN: usize = 40;

/// Flow label: 20 bits that name a flow to routers (RFC 6437).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FlowLabel(u32);

impl FlowLabel {
    /// Takes the low 20 bits.
    pub const fn new(value: u32) -> Self {
        Self(value & 0xf_ffff)
    }

    /// The 20-bit value.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the UDP source port that spreads flows over paths like the label: in the dynamic range, from both ends
    /// of the label (annex A17.3.2.1; the same folding as Linux, so captures are comparable).
    pub const fn source_port(self) -> u16 {
        0xc000 | ((self.0 ^ self.0 >> 14) & 0x3fff) as u16
    }
}

view! {
    /// View of an IPv6 packet whose payload is as long as the header announces.
    Ipv6View[_] {
        /// DSCP and ECN.
        traffic_class(b) -> TrafficClass { TrafficClass((be16(b, 0) >> 4) as u8) }
        /// Flow label.
        flow_label(b) -> FlowLabel { FlowLabel::new(be32(b, 0)) }
        /// Bytes after the header.
        payload_len(b) -> usize { usize::from(be16(b, 4)) }
        /// Protocol of the payload, or an extension header.
        next_header(b) -> u8 { b[6] }
        /// Hop limit.
        hop_limit(b) -> u8 { b[7] }
        /// Source address.
        source(b) -> Ipv6Addr { Ipv6Addr::from(get::<16>(b, 8)) }
        /// Destination address.
        destination(b) -> Ipv6Addr { Ipv6Addr::from(get::<16>(b, 24)) }
    }
}

impl<'a> Ipv6View<'a> {
    /// Wraps a packet.
    ///
    /// # Errors
    /// The packet is short, or has another version.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let first = *bytes.first().ok_or(Malformed::Short)?;
        if first >> 4 != 6 {
            return Err(Malformed::Version);
        }
        if bytes.len() < LEN || bytes.len() - LEN < Self(bytes).payload_len() {
            return Err(Malformed::Short);
        }
        Ok(Self(bytes))
    }

    /// Returns the header's bytes.
    pub fn header(self) -> &'a [u8] {
        &self.0[..LEN]
    }

    /// Returns the payload that the header announces; the bytes after it are Ethernet padding.
    pub fn payload(self) -> &'a [u8] {
        &self.0[LEN..LEN + self.payload_len()]
    }
}

/// Value of an IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6 {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Protocol of the payload.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Bytes after the header.
    pub payload_len: u16,
}

impl Ipv6 {
    /// Bytes of the header.
    pub const LEN: usize = LEN;
}

impl Format for Ipv6 {
    type View<'a> = Ipv6View<'a>;

    const NAME: &'static str = "IPv6";

    fn view(bytes: &[u8]) -> Result<Ipv6View<'_>, Malformed> {
        Ipv6View::new(bytes)
    }

    fn from_view(view: Ipv6View<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            source: view.source(),
            destination: view.destination(),
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            payload_len: view.payload_len() as u16,
        })
    }

    fn buffer_len(&self) -> usize {
        LEN
    }

    fn write(&self, buffer: &mut [u8]) {
        let class = u32::from(self.traffic_class.0);
        let first = 6 << 28 | class << 20 | self.flow_label.get();
        put(buffer, 0, first.to_be_bytes());
        put(buffer, 4, self.payload_len.to_be_bytes());
        buffer[6] = self.next_header;
        buffer[7] = self.hop_limit;
        put(buffer, 8, self.source.octets());
        put(buffer, 24, self.destination.octets());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_and_lengths_are_checked() {
        let mut packet = [0; 44];
        packet[0] = 0x60;
        packet[5] = 4;
        assert_eq!(Ipv6View::new(&packet).unwrap().payload(), [0; 4]);
        packet[5] = 5;
        assert_eq!(Ipv6View::new(&packet), Err(Malformed::Short));
        packet[0] = 0x40;
        assert_eq!(Ipv6View::new(&packet), Err(Malformed::Version));
        assert_eq!(Ipv6View::new(&[0x60; 39]), Err(Malformed::Short));
    }

    #[test]
    fn labels_become_dynamic_ports() {
        assert_eq!(FlowLabel::new(0).source_port(), 0xc000);
        assert_eq!(FlowLabel::new(0x12345).source_port(), 0xe341);
        assert_eq!(FlowLabel::new(u32::MAX).get(), 0xf_ffff);
    }

    proptest! {
        #[test]
        fn values_survive_the_wire(
            (source, destination, class) in any::<(u128, u128, u8)>(),
            (label, next_header, hop_limit) in any::<(u32, u8, u8)>(),
            payload_len in 0u16..5,
        ) {
            let value = Ipv6 {
                source: source.into(),
                destination: destination.into(),
                traffic_class: TrafficClass(class),
                flow_label: FlowLabel::new(label),
                next_header,
                hop_limit,
                payload_len,
            };
            let mut packet = [0; 44];
            value.emit(&mut packet);
            prop_assert_eq!(Ipv6::parse(&packet), Ok(value));
        }
    }
}
