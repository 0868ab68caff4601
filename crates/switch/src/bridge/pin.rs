//! What a port may send that is kept to its addresses: nothing in the name of others.
//!
//! Looked at are the Ethernet source, ARP, the sources of IPv4 and IPv6, and which address a neighbour
//! advertisement speaks of (RFC 826, RFC 4861). No address yet (DHCP, duplicate address detection) is
//! nobody's name.

use alloc::boxed::Box;
use core::net::{Ipv4Addr, Ipv6Addr};

use vrdma_wire::{EtherType, EthernetView, Gid, Mac};

/// Tags that bridges of providers put outside (IEEE 802.1ad).
const PROVIDER_TAG: EtherType = EtherType(0x88a8);

/// Headers that may stand between IPv6 and ICMPv6: hop-by-hop options, routing, destination options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];

/// Of those that are followed.
const EXTENSIONS_MAX: usize = 4;

const ICMPV6: u8 = 58;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Fixed header of IPv6.
const IPV6_BYTES: usize = 40;

/// A station, and the addresses that it has.
#[derive(Clone, Debug)]
pub(super) struct Pin {
    pub(super) mac: Mac,
    pub(super) gids: Box<[Gid]>,
}

impl Pin {
    /// Whether a frame is in the port's own name.
    pub(super) fn admits(&self, frame: &[u8]) -> bool {
        let Ok(ethernet) = EthernetView::new(frame) else {
            return false;
        };
        let packet = ethernet.payload();
        let own = match ethernet.ether_type() {
            EtherType::ARP => self.admits_arp(packet),
            EtherType::IPV4 => v4(packet, 12).is_some_and(|ip| self.has_v4(ip)),
            EtherType::IPV6 => self.admits_v6(packet),
            // A tag inside of another one would hide the rest.
            EtherType::VLAN | PROVIDER_TAG => false,
            _ => true,
        };
        own && ethernet.source() == self.mac
    }

    fn admits_arp(&self, arp: &[u8]) -> bool {
        let says = || Some((Mac(*arp.get(8..)?.first_chunk()?), v4(arp, 14)?));
        says().is_some_and(|(mac, ip)| mac == self.mac && self.has_v4(ip))
    }

    fn admits_v6(&self, packet: &[u8]) -> bool {
        let source = v6(packet, 8).is_some_and(|ip| ip.is_unspecified() || self.has_v6(ip));
        source && advertised(packet).is_none_or(|ip| ip.is_some_and(|ip| self.has_v6(ip)))
    }

    fn has_v4(&self, ip: Ipv4Addr) -> bool {
        ip.is_unspecified() || self.gids.contains(&Gid::from_ipv4(ip))
    }

    fn has_v6(&self, ip: Ipv6Addr) -> bool {
        let gid = Gid(ip.octets());
        self.gids.contains(&gid) || gid == Gid::link_local(self.mac)
    }
}

/// The address that a neighbour advertisement speaks of, if it is one; within, none if it is cut off.
fn advertised(packet: &[u8]) -> Option<Option<Ipv6Addr>> {
    let (mut next, mut at) = (*packet.get(6)?, IPV6_BYTES);
    for _ in 0..EXTENSIONS_MAX {
        if EXTENSIONS.contains(&next) {
            let length = *packet.get(at + 1)?;
            next = *packet.get(at)?;
            at += 8 + 8 * usize::from(length);
        }
    }
    let is_one = next == ICMPV6 && packet.get(at) == Some(&NEIGHBOUR_ADVERTISEMENT);
    // Nobody needs more headers than are followed.
    (is_one || EXTENSIONS.contains(&next)).then(|| v6(packet, at + 8).filter(|_| is_one))
}

fn v4(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?))
}

fn v6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const NONE: [u8; 4] = [0; 4];
    const FIVE: [u8; 4] = [10, 0, 0, 5];
    const SIX: [u8; 4] = [10, 0, 0, 6];

    const GLOBAL: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 5);

    fn pin() -> Pin {
        Pin {
            mac: OWN,
            gids: [Gid::from_ipv4(FIVE.into()), Gid(GLOBAL.octets())].into(),
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

    /// With an extension header in front of ICMPv6, or not.
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
}
