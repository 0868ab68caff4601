//! IP addresses of an adapter.

use std::fmt;
use std::net::IpAddr;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::name::shortened;

/// The word for addresses that are learned.
const LEARN: &str = "learn";

/// Why the word is not allowed in a list.
const NOT_ALONE: &str =
    "\"learn\" stands alone: write it without brackets, or addresses and no \"learn\"";

/// No, one, or several IP addresses, in the order in which they were stated, or those that a VM's guest uses first. One
/// address is written as a text, several as a list, and learned ones as `learn`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// These addresses.
    Stated(Vec<IpAddr>),
    /// One IPv4 and one IPv6 address, the first that the guest uses.
    Learned,
}

impl Addresses {
    /// Most addresses of one adapter: every frame of its guest is compared with all of them.
    pub const MAX: usize = 16;

    /// Returns the stated addresses.
    pub fn as_slice(&self) -> &[IpAddr] {
        match self {
            Self::Stated(all) => all,
            Self::Learned => &[],
        }
    }

    /// Whether no addresses are stated and none are learned.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Stated(all) if all.is_empty())
    }
}

impl Default for Addresses {
    fn default() -> Self {
        Self::Stated(Vec::new())
    }
}

impl From<Vec<IpAddr>> for Addresses {
    fn from(all: Vec<IpAddr>) -> Self {
        Self::Stated(all)
    }
}

impl FromIterator<IpAddr> for Addresses {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(all: I) -> Self {
        Self::Stated(all.into_iter().collect())
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stated(all) => {
                let all: Vec<_> = all.iter().map(ToString::to_string).collect();
                f.pad(&all.join(" "))
            }
            Self::Learned => f.pad(LEARN),
        }
    }
}

impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Learned => LEARN.serialize(serializer),
            Self::Stated(all) => match &**all {
                [one] => one.serialize(serializer),
                all => all.serialize(serializer),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Addresses;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an IP address such as \"10.0.0.5\", a list of them, or \"learn\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Addresses, E> {
                match text {
                    LEARN => Ok(Addresses::Learned),
                    _ => Ok(Addresses::Stated(vec![parse(text)?])),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Addresses, A::Error> {
                let mut all = Vec::new();
                while let Some(text) = seq.next_element::<String>()? {
                    if text == LEARN {
                        return Err(de::Error::custom(NOT_ALONE));
                    }
                    all.push(parse(&text)?);
                }
                Ok(Addresses::Stated(all))
            }
        }
        deserializer.deserialize_any(OneOrMore)
    }
}

fn parse<E: de::Error>(text: &str) -> Result<IpAddr, E> {
    text.parse().map_err(|_| {
        E::custom(format_args!(
            "{:?} is no IP address: write one such as 10.0.0.5 or fd00::5",
            shortened(text)
        ))
    })
}
