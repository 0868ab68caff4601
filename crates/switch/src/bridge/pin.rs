//! A port that may send only in the name of its own addresses.
//!
//! The checks look at the Ethernet source, ARP, the sources of IPv4 and IPv6, and the address that a neighbour
//! advertisement is about (RFC 826, RFC 4861). "No address yet" (DHCP, duplicate address detection) is nobody's name.
//! The link-local address of its MAC is always the port's own.

use alloc::boxed::Box;
use core::net::Ipv4Addr;

use vrdma_wire::{EtherType, EthernetView, Gid, Mac};

/// Outer tags that bridges of providers add (IEEE 802.1ad).
const PROVIDER_TAG: EtherType = EtherType(0x88a8);

/// Headers that may stand between IPv6 and ICMPv6: hop-by-hop options, routing, destination options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];

/// Most such headers that are followed.
const EXTENSIONS_MAX: usize = 4;

const ICMPV6: u8 = 58;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Bytes of the fixed header of IPv6.
const IPV6_BYTES: usize = 40;

/// Decides which addresses a port that learns them has.
pub trait Claim: Send {
    /// Whether an address is the port's own; the first one of its family becomes so.
    fn claim(&mut self, gid: Gid) -> bool;
}

/// The addresses in whose name a port may send.
#[derive(Default)]
pub enum Sources {
    /// Any.
    #[default]
    Any,
    /// Its MAC's and these.
    Stated(Box<[Gid]>),
    /// Its MAC's and those that it learns.
    Learned(Box<dyn Claim>),
}

/// A station and its addresses.
pub(super) struct Pin {
    pub(super) mac: Mac,
    pub(super) sources: Sources,
}

/// The addresses that a frame is sent in the name of.
type Names = [Option<Gid>; 2];

impl Pin {
    /// Whether a frame is in the port's own name.
    pub(super) fn admits(&mut self, frame: &[u8]) -> bool {
        let Some(names) = names(frame, self.mac) else {
            return false;
        };
        let of_mac = Gid::link_local(self.mac);
        let mut names = names.into_iter().flatten().filter(|&gid| gid != of_mac);
        match &mut self.sources {
            Sources::Any => true,
            Sources::Stated(gids) => names.all(|gid| gids.contains(&gid)),
            Sources::Learned(claim) => match (names.next(), names.next()) {
                // It has an address of the family, and the frame is not sent for another one.
                (Some(gid), second) => second.is_none_or(|other| other == gid) && claim.claim(gid),
                (None, _) => true,
            },
        }
    }
}

/// Returns the addresses in whose name a frame is sent; `None` if its station is another one, or it is cut off.
fn names(frame: &[u8], mac: Mac) -> Option<Names> {
    let ethernet = EthernetView::new(frame).ok()?;
    if ethernet.source() != mac {
        return None;
    }
    let packet = ethernet.payload();
    match ethernet.ether_type() {
        EtherType::ARP => {
            let says = Mac(*packet.get(8..)?.first_chunk()?);
            (says == mac).then_some([v4(packet, 14)?, None])
        }
        EtherType::IPV4 => Some([v4(packet, 12)?, None]),
        EtherType::IPV6 => Some([v6(packet, 8)?, advertised(packet)?]),
        // A tag inside another one would hide the rest.
        EtherType::VLAN | PROVIDER_TAG => None,
        _ => Some([None, None]),
    }
}

/// Returns the address that a neighbour advertisement is about, if the packet is one; `None` if it is cut off.
fn advertised(packet: &[u8]) -> Option<Option<Gid>> {
    let (mut next, mut at) = (*packet.get(6)?, IPV6_BYTES);
    for _ in 0..EXTENSIONS_MAX {
        if EXTENSIONS.contains(&next) {
            let Some(header) = packet.get(at..at + 2) else {
                return Some(None);
            };
            next = header[0];
            at += 8 + 8 * usize::from(header[1]);
        }
    }
    // Nobody needs more of these headers than are followed.
    if EXTENSIONS.contains(&next) {
        return None;
    }
    let is_one = next == ICMPV6 && packet.get(at) == Some(&NEIGHBOUR_ADVERTISEMENT);
    match is_one {
        true => v6(packet, at + 8)?.map(Some),
        false => Some(None),
    }
}

/// Returns an IPv4 address; inside, `None` if it is unspecified.
fn v4(bytes: &[u8], at: usize) -> Option<Option<Gid>> {
    let ip = Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?);
    Some((!ip.is_unspecified()).then(|| Gid::from_ipv4(ip)))
}

/// Returns an IPv6 address in the same way.
fn v6(bytes: &[u8], at: usize) -> Option<Option<Gid>> {
    let gid = Gid(*bytes.get(at..)?.first_chunk::<16>()?);
    Some((!gid.is_zero()).then_some(gid))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::net::Ipv6Addr;

    use super::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const NONE: [u8; 4] = [0; 4];
    const FIVE: [u8; 4] = [10, 0, 0, 5];
    const SIX: [u8; 4] = [10, 0, 0, 6];

    const GLOBAL: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 5);

    fn pin() -> Pin {
        let gids = [Gid::from_ipv4(FIVE.into()), Gid(GLOBAL.octets())];
        Pin {
            mac: OWN,
            sources: Sources::Stated(gids.into()),
        }
    }

    /// A claim that grants the first address that it is asked for, and no other.
    #[derive(Default)]
    struct First(Option<Gid>);

    impl Claim for First {
        fn claim(&mut self, gid: Gid) -> bool {
            *self.0.get_or_insert(gid) == gid
        }
    }

    fn learning() -> Pin {
        Pin {
            mac: OWN,
            sources: Sources::Learned(Box::new(First::default())),
        }
    }

    fn frame(source: Mac, types: &[u16], packet: &[u8]) -> Vec<u8> {
        let mut frame = [[0xff; 6], source.0].concat();
        let types = types.iter().enumerate();
        for (at, kind) in types {
            if at > 0 {
                frame.extend([0, 0]);
            }
            frame.extend(kind.to_be_bytes());
        }
        frame.extend(packet);
        frame
    }

    fn arp(mac: Mac, ip: [u8; 4]) -> Vec<u8> {
        let head = [0, 1, 8, 0, 6, 4, 0, 2];
        [&head[..], &mac.0, &ip, &OTHER.0, &SIX].concat()
    }

    fn from_v4(ip: [u8; 4]) -> Vec<u8> {
        [&[0x45; 12][..], &ip, &SIX].concat()
    }

    /// Makes a packet, with or without an extension header in front of ICMPv6.
    fn from_v6(ip: Ipv6Addr, extended: bool, kind: u8, target: Ipv6Addr) -> Vec<u8> {
        let next = if extended { 60 } else { ICMPV6 };
        let mut packet = [&[0x60, 0, 0, 0, 0, 24, next, 255][..], &ip.octets()].concat();
        packet.extend([0xff; 16]);
        packet.extend([ICMPV6, 0, 1, 4, 0, 0, 0, 0].iter().filter(|_| extended));
        packet.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend(target.octets());
        packet
    }

    #[test]
    fn what_is_said_in_the_own_name_passes() {
        let local = Ipv6Addr::from(Gid::link_local(OWN).0);
        let all = [
            frame(OWN, &[0x806], &arp(OWN, FIVE)),
            frame(OWN, &[0x806], &arp(OWN, NONE)),
            frame(OWN, &[0x800], &from_v4(FIVE)),
            frame(OWN, &[0x800], &from_v4(NONE)),
            frame(OWN, &[0x8100, 0x800], &from_v4(FIVE)),
            frame(OWN, &[0x86dd], &from_v6(local, false, 136, local)),
            frame(OWN, &[0x86dd], &from_v6(local, true, 143, local)),
            frame(OWN, &[0x86dd], &from_v6(GLOBAL, false, 136, GLOBAL)),
            frame(
                OWN,
                &[0x86dd],
                &from_v6(Ipv6Addr::UNSPECIFIED, false, 135, local),
            ),
            frame(OWN, &[0x88cc], &[1]),
        ];
        for frame in all {
            assert!(pin().admits(&frame), "{frame:02x?}");
        }
    }

    #[test]
    fn what_is_said_in_the_name_of_others_does_not() {
        let local = Ipv6Addr::from(Gid::link_local(OWN).0);
        let other: Ipv6Addr = "fe80::2".parse().unwrap();
        let all = [
            frame(OTHER, &[0x806], &arp(OWN, FIVE)),
            frame(OWN, &[0x806], &arp(OTHER, FIVE)),
            frame(OWN, &[0x806], &arp(OWN, SIX)),
            frame(OWN, &[0x806], &arp(OWN, FIVE)[..16]),
            frame(OWN, &[0x800], &from_v4(SIX)),
            frame(OWN, &[0x8100, 0x800], &from_v4(SIX)),
            frame(OWN, &[0x8100, 0x8100, 0x800], &from_v4(FIVE)),
            frame(OWN, &[0x88a8, 0x800], &from_v4(FIVE)),
            frame(OWN, &[0x86dd], &from_v6(other, false, 128, local)),
            frame(OWN, &[0x86dd], &from_v6(local, false, 136, other)),
            frame(OWN, &[0x86dd], &from_v6(local, true, 136, other)),
            frame(OWN, &[0x86dd], &from_v6(local, true, 136, local)[..60]),
            frame(OWN, &[0x88cc], &[1])[..13].to_vec(),
        ];
        for frame in all {
            assert!(!pin().admits(&frame), "{frame:02x?}");
        }
    }

    #[test]
    fn the_first_address_in_whose_name_a_frame_is_becomes_the_port_s() {
        let local = Ipv6Addr::from(Gid::link_local(OWN).0);
        let other: Ipv6Addr = "fd00::6".parse().unwrap();
        let advertisement = |of| frame(OWN, &[0x86dd], &from_v6(local, false, 136, of));
        let first = [
            (frame(OWN, &[0x806], &arp(OWN, FIVE)), FIVE),
            (frame(OWN, &[0x8100, 0x800], &from_v4(FIVE)), FIVE),
        ];
        for (first, ip) in first {
            let mut pin = learning();
            assert!(pin.admits(&frame(OWN, &[0x806], &arp(OWN, NONE))));
            assert!(pin.admits(&advertisement(local)));
            assert!(!pin.admits(&frame(OTHER, &[0x806], &arp(OWN, SIX))));
            assert!(!pin.admits(&frame(OWN, &[0x806], &arp(OTHER, SIX))));
            assert!(
                pin.admits(&first),
                "nothing before was an address of its own"
            );
            assert!(pin.admits(&frame(OWN, &[0x800], &from_v4(ip))));
            assert!(!pin.admits(&frame(OWN, &[0x800], &from_v4(SIX))));
        }
        let mut pin = learning();
        let of_two = from_v6(GLOBAL, false, 136, other);
        assert!(!pin.admits(&frame(OWN, &[0x86dd], &of_two)));
        assert!(
            pin.admits(&advertisement(other)),
            "the frame before was lost"
        );
        assert!(!pin.admits(&advertisement(GLOBAL)));
    }
}
