//! Addresses: Ethernet MACs and RDMA GIDs, and conversions between them.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address of all stations.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether it has the group bit, as broadcast and multicast addresses do.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Returns the EUI-64 with the universal/local bit flipped: node GUIDs and default GIDs use it.
    pub const fn eui64(self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.0;
        [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAMac;

impl fmt::Display for NotAMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a MAC address is six two-digit hexadecimal numbers, such as 52:54:00:00:00:01")
    }
}

impl core::error::Error for NotAMac {}

impl FromStr for Mac {
    type Err = NotAMac;

    fn from_str(text: &str) -> Result<Self, NotAMac> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(NotAMac)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| NotAMac)?;
        }
        parts.next().is_none().then_some(Self(bytes)).ok_or(NotAMac)
    }
}

/// A RoCE global identifier: an IPv6 address, or an IPv4 one mapped into `::ffff:0:0/96`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Returns the GID that the IB core binds to every port: `fe80::` and the EUI-64 of the MAC.
    pub fn link_local(mac: Mac) -> Self {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&[0xfe, 0x80]);
        bytes[8..].copy_from_slice(&mac.eui64());
        Self(bytes)
    }

    /// Returns the GID of an IPv4 address.
    pub const fn from_ipv4(address: Ipv4Addr) -> Self {
        Self(address.to_ipv6_mapped().octets())
    }

    /// Returns the IPv4 address inside a mapped GID.
    pub const fn to_ipv4(self) -> Option<Ipv4Addr> {
        self.to_ipv6().to_ipv4_mapped()
    }

    /// Returns the GID as an IPv6 address.
    pub const fn to_ipv6(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(u128::from_be_bytes(self.0))
    }

    /// Whether all bytes are zero: an empty table entry.
    pub const fn is_zero(self) -> bool {
        u128::from_be_bytes(self.0) == 0
    }

    /// Returns the Ethernet address of a group: 01:00:5e and the low 23 bits of an IPv4 address (RFC 1112 6.4), or
    /// 33:33 and the low 32 bits (RFC 2464 7). `None` if the GID [is no group](Gid::is_multicast).
    pub const fn group_mac(self) -> Option<Mac> {
        if !self.is_multicast() {
            return None;
        }
        let [.., a, b, c, d] = self.0;
        Some(match self.to_ipv4() {
            Some(_) => Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d]),
            None => Mac([0x33, 0x33, a, b, c, d]),
        })
    }

    /// Whether it is in `ff00::/8`, or a mapped IPv4 multicast address.
    pub const fn is_multicast(self) -> bool {
        match self.to_ipv4() {
            Some(address) => address.is_multicast(),
            None => self.0[0] == 0xff,
        }
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ipv6().fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn mac_text_round_trips_and_refuses_others() {
        let mac: Mac = "52:54:00:0a:0B:ff".parse().unwrap();
        assert_eq!(mac.to_string(), "52:54:00:0a:0b:ff");
        for bad in [
            "",
            "52:54:00:00:00",
            "52:54:00:00:00:01:02",
            "5:54:00:00:00:01",
            "zz:54:00:00:00:01",
        ] {
            assert_eq!(bad.parse::<Mac>(), Err(NotAMac), "{bad}");
        }
    }

    #[test]
    fn default_gid_flips_the_local_bit() {
        let gid = Gid::link_local(Mac([0x52, 0x54, 0, 0, 0, 1]));
        assert_eq!(gid.to_string(), "fe80::5054:ff:fe00:1");
        assert_eq!(gid.0[8], 0x50);
    }

    #[test]
    fn groups_have_their_own_stations() {
        let mac = |gid: Gid| gid.group_mac().map(|mac| mac.to_string());
        let v4 = Gid::from_ipv4(Ipv4Addr::new(239, 129, 2, 3));
        assert_eq!(mac(v4).as_deref(), Some("01:00:5e:01:02:03"));
        let v6 = Gid("ff0e::ffff:ef81:203".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(mac(v6).as_deref(), Some("33:33:ef:81:02:03"));
        assert_eq!(mac(Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 1))), None);
    }

    #[test]
    fn ipv4_gids_are_mapped() {
        let gid = Gid::from_ipv4(Ipv4Addr::new(10, 10, 0, 1));
        assert_eq!(gid.to_string(), "::ffff:10.10.0.1");
        assert_eq!(gid.to_ipv4(), Some(Ipv4Addr::new(10, 10, 0, 1)));
        assert!(!gid.is_multicast());
        assert!(Gid::from_ipv4(Ipv4Addr::new(224, 0, 0, 1)).is_multicast());
    }
}
