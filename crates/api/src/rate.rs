//! Rates in the units of `tc` (iproute2).

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::TextOrNumber;

/// Units and their values, the largest first; `bit` is last, because all others end with it.
const UNITS: [(&str, u64); 9] = [
    ("tibit", 1 << 40),
    ("tbit", 1_000_000_000_000),
    ("gibit", 1 << 30),
    ("gbit", 1_000_000_000),
    ("mibit", 1 << 20),
    ("mbit", 1_000_000),
    ("kibit", 1 << 10),
    ("kbit", 1000),
    ("bit", 1),
];

/// Bits a second, at least [`Rate::LEAST`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// The smallest rate: a packet of 4096 bytes and its headers takes 84 ms.
    pub const LEAST: u64 = 400_000;

    /// Returns the bits per second.
    pub const fn bits(self) -> NonZeroU64 {
        self.0
    }
}

/// Why a text or number is not a [`Rate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotARate {
    /// The text is not a rate.
    Unreadable(String),
    /// The rate is less than [`Rate::LEAST`].
    TooSmall(String),
}

impl fmt::Display for NotARate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(text) => write!(
                f,
                "{text:?} is not a rate: use a number with a unit, such as 10gbit, 500mbit or 800kbit"
            ),
            Self::TooSmall(text) => {
                write!(
                    f,
                    "{text} is too little to send packets: use 400kbit or more"
                )
            }
        }
    }
}

impl std::error::Error for NotARate {}

impl TryFrom<u64> for Rate {
    type Error = NotARate;

    fn try_from(bits: u64) -> Result<Self, NotARate> {
        match NonZeroU64::new(bits) {
            Some(rate) if bits >= Self::LEAST => Ok(Self(rate)),
            _ => Err(NotARate::TooSmall(format!("{bits}bit"))),
        }
    }
}

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let lower = text.to_ascii_lowercase();
        let unit = UNITS.iter().find(|(unit, _)| lower.ends_with(unit));
        let (unit, factor) = unit.map_or(("", 1), |(unit, factor)| (*unit, *factor));
        let number = &lower[..lower.len() - unit.len()];
        let bits = scaled(number, factor);
        let bits = bits.ok_or_else(|| NotARate::Unreadable(text.to_owned()))?;
        Self::try_from(bits).map_err(|_| NotARate::TooSmall(text.to_owned()))
    }
}

/// Parses digits, perhaps with a decimal point, and multiplies by `factor`; `None` if the text is no such number or too
/// large.
pub(crate) fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Digits beyond the precision of a unit do not matter.
    if !digits(whole) || !digits(part) || part.len() > 12 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let part = part.parse::<u128>().ok()? * u128::from(factor) / 10u128.pow(part.len() as u32);
    whole.checked_add(u64::try_from(part).ok()?)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0.get();
        let fits = |(_, factor): &&(&str, u64)| bits.is_multiple_of(*factor);
        let (unit, factor) = UNITS.iter().find(fits).unwrap_or(&("bit", 1));
        f.pad(&format!("{}{unit}", bits / factor))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber::new("a rate such as \"10gbit\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> Option<u64> {
        text.parse::<Rate>().ok().map(|rate| rate.bits().get())
    }

    #[test]
    fn units_are_those_of_tc() {
        assert_eq!(bits("10gbit"), Some(10_000_000_000));
        assert_eq!(bits("2.5Gbit"), Some(2_500_000_000));
        assert_eq!(bits("1gibit"), Some(1 << 30));
        assert_eq!(bits("800kbit"), Some(800_000));
        assert_eq!(bits("1000000"), Some(1_000_000));
        assert_eq!(bits("400000bit"), Some(400_000));
        for bad in [
            "",
            "gbit",
            "-1gbit",
            "1.gbit",
            ".5gbit",
            "1 gbit",
            "1gbps",
            "+1gbit",
            "99999999tbit",
            "1.0000000000000gbit",
        ] {
            assert_eq!(bits(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_is_shown_is_read_as_the_same() {
        for bits in [
            400_000,
            400_001,
            1 << 30,
            10_000_000_000,
            2_500_000_000,
            u64::MAX,
        ] {
            let rate = Rate::try_from(bits).unwrap();
            assert_eq!(rate.to_string().parse(), Ok(rate));
            let json = serde_json::to_string(&rate).unwrap();
            assert_eq!(serde_json::from_str::<Rate>(&json).unwrap(), rate);
        }
        assert_eq!(
            Rate::try_from(2_500_000_000).unwrap().to_string(),
            "2500mbit"
        );
        assert_eq!(Rate::try_from(1 << 30).unwrap().to_string(), "1gibit");
    }

    #[test]
    fn the_smallest_is_said() {
        let error = "399kbit".parse::<Rate>().unwrap_err().to_string();
        assert_eq!(
            error,
            "399kbit is too little to send packets: use 400kbit or more"
        );
    }
}
