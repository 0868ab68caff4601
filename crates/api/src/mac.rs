//! Ethernet addresses as people write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Name;
use crate::name::shortened;

/// The address of one adapter: unicast and not zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// Returns the six bytes in wire order.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// Derives a locally administered address from the name alone, so that a guest finds the same card after every
    /// restart.
    pub fn derived_from(name: &Name) -> Self {
        let [_, _, _, a, b, c, d, e] = fnv1a(name.as_str()).to_be_bytes();
        Self([LOCALLY_ADMINISTERED, a, b, c, d, e])
    }
}

const LOCALLY_ADMINISTERED: u8 = 0x02;
const GROUP: u8 = 0x01;

/// Hashes with FNV-1a, 64 bits: stable across releases and machines, which `std`'s hasher does not promise.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Why a text is not a [`MacAddress`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAMac(String);

impl fmt::Display for NotAMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a MAC address for an adapter: write six two-digit hexadecimal numbers, the first one even and not all zero, such as 52:54:00:00:00:01",
            shortened(&self.0)
        )
    }
}

impl std::error::Error for NotAMac {}

impl FromStr for MacAddress {
    type Err = NotAMac;

    fn from_str(text: &str) -> Result<Self, NotAMac> {
        octets(text)
            .filter(|octets| octets[0] & GROUP == 0 && *octets != [0; 6])
            .map(Self)
            .ok_or_else(|| NotAMac(text.to_owned()))
    }
}

fn octets(text: &str) -> Option<[u8; 6]> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        let part = parts.next()?;
        let digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        *octet = digits.then(|| u8::from_str_radix(part, 16).ok())??;
    }
    parts.next().is_none().then_some(octets)
}

impl TryFrom<String> for MacAddress {
    type Error = NotAMac;

    fn try_from(text: String) -> Result<Self, NotAMac> {
        text.parse()
    }
}

impl From<MacAddress> for String {
    fn from(mac: MacAddress) -> Self {
        mac.to_string()
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
