//! IP addresses of an adapter.

use std::fmt;
use std::net::IpAddr;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::name::shortened;

/// None, one, or several IP addresses, in the order in which they were stated. One is written as a text and
/// several as a list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Addresses(Vec<IpAddr>);

impl Addresses {
    /// Most that one adapter can be kept to: every frame of its guest is compared with all of them.
    pub const MAX: usize = 16;

    /// All of them.
    pub fn as_slice(&self) -> &[IpAddr] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<IpAddr>> for Addresses {
    fn from(all: Vec<IpAddr>) -> Self {
        Self(all)
    }
}

impl FromIterator<IpAddr> for Addresses {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.pad(&all.join(" "))
    }
}

impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &*self.0 {
            [one] => one.serialize(serializer),
            all => all.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Addresses;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an IP address such as \"10.0.0.5\", or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Addresses, E> {
                Ok(Addresses(vec![parse(text)?]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Addresses, A::Error> {
                let mut all = Vec::new();
                while let Some(text) = seq.next_element::<String>()? {
                    all.push(parse(&text)?);
                }
                Ok(Addresses(all))
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
