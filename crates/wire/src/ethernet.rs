//! Ethernet II with at most one 802.1Q tag (IEEE 802.3 clause 3, 802.1Q clause 9).
//!
//! ```text
//!   0           6           12     14
//!   | to        | from      | type |                   payload ...
//!   | to        | from      | 8100 | tag | type |      payload ...
//! ```

use crate::address::Mac;
use crate::bits::Bits;
use crate::field::{be16, get, put};
use crate::format::{Format, Malformed, view};

/// Type of an Ethernet frame's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// An 802.1Q tag, which is followed by the type.
    pub const VLAN: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
}

/// The tag of a frame: VLAN, priority and drop eligibility (802.1Q 9.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Vlan(pub u16);

impl Vlan {
    /// Makes a tag of priority 0.
    ///
    /// `None` for 4095, which is reserved, and for numbers that do not fit 12 bits.
    pub const fn new(id: u16) -> Option<Self> {
        if id < 0xfff { Some(Self(id)) } else { None }
    }

    /// Returns the same VLAN with a priority.
    #[must_use]
    pub const fn with_priority(self, priority: Bits<3>) -> Self {
        Self(self.0 & 0x1fff | (priority.get() as u16) << 13)
    }

    /// Returns the VLAN identifier; 0 means that only the priority counts.
    pub const fn id(self) -> u16 {
        self.0 & 0xfff
    }

    /// Returns the priority code point.
    pub const fn priority(self) -> Bits<3> {
        Bits::low((self.0 >> 13) as u8)
    }

    /// Whether the frame may be dropped first.
    pub const fn drop_eligible(self) -> bool {
        self.0 >> 12 & 1 == 1
    }
}

const UNTAGGED: usize = 14;
const TAGGED: usize = 18;

view! {
    /// View of a frame whose header is whole.
    EthernetView[_] {
        /// Destination address.
        destination(b) -> Mac { Mac(get(b, 0)) }
        /// Source address.
        source(b) -> Mac { Mac(get(b, 6)) }
        /// The tag, if there is one.
        vlan(b) -> Option<Vlan> { is_tagged(b).then(|| Vlan(be16(b, 14))) }
        /// Type of the content after the header. Below 0x600 it is a length (802.3 3.2.6).
        ether_type(b) -> EtherType { EtherType(be16(b, header_len(b) - 2)) }
    }
}

fn is_tagged(frame: &[u8]) -> bool {
    be16(frame, 12) == EtherType::VLAN.0
}

fn header_len(frame: &[u8]) -> usize {
    if is_tagged(frame) { TAGGED } else { UNTAGGED }
}

impl<'a> EthernetView<'a> {
    /// Bytes of the longest header.
    pub const MAX_LEN: usize = TAGGED;

    /// Wraps a frame.
    ///
    /// # Errors
    /// [`Malformed::Short`] if the header is not whole.
    pub fn new(frame: &'a [u8]) -> Result<Self, Malformed> {
        if frame.len() < UNTAGGED || frame.len() < header_len(frame) {
            return Err(Malformed::Short);
        }
        Ok(Self(frame))
    }

    /// Returns the bytes after the header, including padding to the smallest frame.
    pub fn payload(self) -> &'a [u8] {
        &self.0[header_len(self.0)..]
    }
}

/// Value of an Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ethernet {
    /// Destination address.
    pub destination: Mac,
    /// Source address.
    pub source: Mac,
    /// Tag of the frame, if it has one.
    pub vlan: Option<Vlan>,
    /// Type of the content. A tag is in `vlan`, not here.
    pub ether_type: EtherType,
}

impl Format for Ethernet {
    type View<'a> = EthernetView<'a>;

    const NAME: &'static str = "Ethernet";

    fn view(bytes: &[u8]) -> Result<EthernetView<'_>, Malformed> {
        EthernetView::new(bytes)
    }

    fn from_view(view: EthernetView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            destination: view.destination(),
            source: view.source(),
            vlan: view.vlan(),
            ether_type: view.ether_type(),
        })
    }

    fn buffer_len(&self) -> usize {
        if self.vlan.is_some() {
            TAGGED
        } else {
            UNTAGGED
        }
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.destination.0);
        put(buffer, 6, self.source.0);
        if let Some(vlan) = self.vlan {
            put(buffer, 12, EtherType::VLAN.0.to_be_bytes());
            put(buffer, 14, vlan.0.to_be_bytes());
        }
        put(
            buffer,
            self.buffer_len() - 2,
            self.ether_type.0.to_be_bytes(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 22] = [
        0x52, 0x54, 0, 0, 0, 1, 0x52, 0x54, 0, 0, 0, 2, 0x81, 0, 0x70, 5, 8, 0, 1, 2, 3, 4,
    ];

    #[test]
    fn a_tag_is_told_from_a_type() {
        let view = EthernetView::new(&FRAME).unwrap();
        let vlan = view.vlan().unwrap();
        assert_eq!((vlan.id(), vlan.priority().get()), (5, 3));
        assert!(vlan.drop_eligible());
        assert_eq!(view.ether_type(), EtherType::IPV4);
        assert_eq!(view.payload(), [1, 2, 3, 4]);
        assert_eq!(EthernetView::new(&FRAME[..17]), Err(Malformed::Short));
        assert_eq!(EthernetView::new(&FRAME[..13]), Err(Malformed::Short));
    }

    #[test]
    fn vlan_numbers_are_checked() {
        assert_eq!(Vlan::new(4095), None);
        let priority = Bits::new(6).unwrap();
        let vlan = Vlan::new(10).unwrap().with_priority(priority);
        assert_eq!((vlan.id(), vlan.priority()), (10, priority));
    }
}
