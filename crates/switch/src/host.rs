//! The kernel's part for adapters that have no kernel behind them: says which station has their addresses and asks
//! which has another's (ARP, RFC 826; neighbour discovery, RFC 4861), and answers pings.

mod echo;

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use vrdma_wire::{EtherType, EthernetView, Format, Gid, Ipv6, Ipv6View, Mac, internet_checksum};

const ARP_ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: u16 = 1;
const ARP_REPLY: u16 = 2;
/// Bytes of kind, operation and two pairs of addresses.
const ARP_BYTES: usize = 28;

const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Flags: solicited, and to be believed before what was known (RFC 4861 4.4).
const SOLICITED_OVERRIDE: u8 = 0x60;
const OVERRIDE: u8 = 0x20;
const SOURCE_STATION: u8 = 1;
const TARGET_STATION: u8 = 2;
/// Bytes of type, code, checksum, flags, target, and one option of 8 bytes.
const DISCOVERY_BYTES: usize = 32;
/// Hop limit of packets that never pass a router.
const ON_LINK: u8 = 255;

/// An adapter's addresses.
#[derive(Clone, Debug)]
pub struct Host {
    mac: Mac,
    addresses: Vec<Gid>,
}

impl Host {
    /// Makes the host of the adapter `mac` with these addresses.
    pub fn new(mac: Mac, addresses: Vec<Gid>) -> Self {
        Self { mac, addresses }
    }

    /// Returns the answer to a frame that asks for one of the addresses, or pings it. It goes to the station that
    /// asked, and is no longer than the question. Other frames get no answer.
    pub fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let ethernet = EthernetView::new(frame).ok()?;
        let asker = ethernet.source();
        if asker.is_group() || asker == Mac::default() {
            return None;
        }
        match ethernet.ether_type() {
            EtherType::ARP => self.answer_arp(asker, ethernet.payload()),
            EtherType::IPV4 => {
                let reply = echo::answer_ipv4(&self.addresses, ethernet.payload())?;
                Some(self.reply(asker, EtherType::IPV4, &reply))
            }
            EtherType::IPV6 => {
                let discovery = self.answer_solicitation(asker, ethernet.payload());
                discovery.or_else(|| {
                    let reply = echo::answer_ipv6(&self.addresses, ethernet.payload())?;
                    Some(self.reply(asker, EtherType::IPV6, &reply))
                })
            }
            _ => None,
        }
    }

    fn reply(&self, asker: Mac, kind: EtherType, packet: &[u8]) -> Vec<u8> {
        [&asker.0[..], &self.mac.0, &kind.0.to_be_bytes(), packet].concat()
    }

    fn answer_arp(&self, asker: Mac, arp: &[u8]) -> Option<Vec<u8>> {
        let arp = arp.first_chunk::<ARP_BYTES>()?;
        let asks = arp[..6] == ARP_ETHERNET_IPV4 && arp[6..8] == ARP_REQUEST.to_be_bytes();
        let wanted = Gid::from_ipv4(<[u8; 4]>::try_from(&arp[24..]).ok()?.into());
        if !asks || arp[8..14] != asker.0 || !self.addresses.contains(&wanted) {
            return None;
        }
        let theirs = <[u8; 4]>::try_from(&arp[14..18]).ok()?;
        let ours = wanted.to_ipv4()?.octets();
        let packet = Arp {
            operation: ARP_REPLY,
            sender: End {
                mac: self.mac,
                ip: ours,
            },
            target: End {
                mac: asker,
                ip: theirs,
            },
        };
        Some(packet.frame(asker))
    }

    fn answer_solicitation(&self, asker: Mac, packet: &[u8]) -> Option<Vec<u8>> {
        let ip = Ipv6View::new(packet).ok()?;
        let message = ip.payload();
        let asks = ip.next_header() == ICMPV6
            && ip.hop_limit() == ON_LINK
            && message.first() == Some(&SOLICITATION)
            && checksum(ip.source(), ip.destination(), message) == 0;
        let wanted = Gid(*message.get(8..)?.first_chunk()?);
        if !asks || message.len() < DISCOVERY_BYTES || !self.addresses.contains(&wanted) {
            return None;
        }
        let (source, wanted) = (ip.source(), wanted.to_ipv6());
        let body = Discovery {
            kind: ADVERTISEMENT,
            flags: SOLICITED_OVERRIDE,
            target: wanted,
            option: TARGET_STATION,
            station: self.mac,
        };
        if source.is_unspecified() {
            // Another station tries whether the address is free: everybody has to hear that it is not.
            let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            let body = Discovery {
                flags: OVERRIDE,
                ..body
            };
            return Some(body.frame((self.mac, wanted), (group_station(all), all)));
        }
        Some(body.frame((self.mac, wanted), (asker, source)))
    }
}

/// Returns a frame that asks, in the name of the adapter `mac` with the address `ours`, which station has `wanted`;
/// `None` for two IP versions.
pub fn question(mac: Mac, ours: Gid, wanted: Gid) -> Option<Vec<u8>> {
    match (ours.to_ipv4(), wanted.to_ipv4()) {
        (Some(ours), Some(wanted)) => {
            let packet = Arp {
                operation: ARP_REQUEST,
                sender: End {
                    mac,
                    ip: ours.octets(),
                },
                target: End {
                    mac: Mac::default(),
                    ip: wanted.octets(),
                },
            };
            Some(packet.frame(Mac::BROADCAST))
        }
        (None, None) => {
            let body = Discovery {
                kind: SOLICITATION,
                flags: 0,
                target: wanted.to_ipv6(),
                option: SOURCE_STATION,
                station: mac,
            };
            let group = solicited_node(wanted.to_ipv6());
            Some(body.frame((mac, ours.to_ipv6()), (group_station(group), group)))
        }
        _ => None,
    }
}

/// The addresses of one end of an ARP packet.
#[derive(Clone, Copy)]
struct End {
    /// Hardware address.
    mac: Mac,
    /// Protocol address.
    ip: [u8; 4],
}

/// An ARP packet for IPv4 over Ethernet.
struct Arp {
    /// Request or reply.
    operation: u16,
    /// The station that sends it.
    sender: End,
    /// The station that is asked for, or has asked.
    target: End,
}

impl Arp {
    fn frame(&self, to: Mac) -> Vec<u8> {
        let mut frame = header(to, self.sender.mac, EtherType::ARP);
        frame.extend(ARP_ETHERNET_IPV4);
        frame.extend(self.operation.to_be_bytes());
        for end in [self.sender, self.target] {
            frame.extend(end.mac.0);
            frame.extend(end.ip);
        }
        frame
    }
}

fn header(to: Mac, from: Mac, kind: EtherType) -> Vec<u8> {
    let mut frame = Vec::with_capacity(96);
    frame.extend(to.0);
    frame.extend(from.0);
    frame.extend(kind.0.to_be_bytes());
    frame
}

/// A neighbour solicitation or advertisement.
struct Discovery {
    kind: u8,
    flags: u8,
    target: Ipv6Addr,
    option: u8,
    station: Mac,
}

impl Discovery {
    fn frame(&self, from: (Mac, Ipv6Addr), to: (Mac, Ipv6Addr)) -> Vec<u8> {
        let mut message = Vec::with_capacity(DISCOVERY_BYTES);
        message.extend([self.kind, 0, 0, 0, self.flags, 0, 0, 0]);
        message.extend(self.target.octets());
        message.extend([self.option, 1]);
        message.extend(self.station.0);
        let sum = checksum(from.1, to.1, &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let ip = Ipv6 {
            source: from.1,
            destination: to.1,
            traffic_class: Default::default(),
            flow_label: Default::default(),
            next_header: ICMPV6,
            hop_limit: ON_LINK,
            payload_len: DISCOVERY_BYTES as u16,
        };
        let mut frame = header(to.0, from.0, EtherType::IPV6);
        let at = frame.len();
        frame.resize(at + Ipv6::LEN, 0);
        ip.emit(&mut frame[at..]);
        frame.extend(message);
        frame
    }
}

/// Returns the checksum, which includes the pseudo header (RFC 8200 8.1).
pub(crate) fn checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let mut bytes = Vec::with_capacity(40 + message.len());
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, ICMPV6]);
    bytes.extend(message);
    internet_checksum(&bytes)
}

/// Returns the solicited-node address (RFC 4291 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let low = u16::from_be_bytes([b, c]);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), low)
}

/// Returns the MAC of a multicast group (RFC 2464 section 7).
fn group_station(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use alloc::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::sender;

    const ANN: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
    const BOB: Mac = Mac([0x52, 0x54, 0, 0, 0, 2]);

    fn gids(mac: Mac, last: u8) -> [Gid; 2] {
        let v4 = Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, last));
        [v4, Gid::link_local(mac)]
    }

    #[test]
    fn hosts_find_each_other() {
        let bob = Host::new(BOB, gids(BOB, 2).to_vec());
        for (ours, wanted) in gids(ANN, 1).into_iter().zip(gids(BOB, 2)) {
            let asked = question(ANN, ours, wanted).unwrap();
            assert_eq!(sender(&asked), Some((ours, ANN)));
            assert!(asked[0] & 1 == 1, "to a group");
            let answer = bob.answer(&asked).unwrap();
            assert_eq!(sender(&answer), Some((wanted, BOB)));
            assert_eq!(answer[..6], ANN.0);
            assert!(answer.len() <= asked.len());
            let ann = Host::new(ANN, gids(ANN, 1).to_vec());
            assert_eq!(ann.answer(&asked), None, "not asked");
            assert_eq!(bob.answer(&answer), None, "not a question");
        }
        let [v4, v6] = gids(ANN, 1);
        assert_eq!(question(ANN, v4, v6), None);
    }

    #[test]
    fn a_wrong_checksum_or_a_router_is_no_question() {
        let [_, ours] = gids(ANN, 1);
        let bob = Host::new(BOB, vec![Gid::link_local(BOB)]);
        let good = question(ANN, ours, Gid::link_local(BOB)).unwrap();
        assert!(bob.answer(&good).is_some());
        for (at, value) in [(21, 64), (56, good[56] ^ 1)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(bob.answer(&bad), None);
        }
    }

    proptest! {
        #[test]
        fn any_frame_has_a_short_answer_or_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let bob = Host::new(BOB, gids(BOB, 2).to_vec());
            if let Some(answer) = bob.answer(&bytes) {
                prop_assert!(answer.len() <= bytes.len());
            }
        }
    }
}
