//! Limits, guarantees and weights of adapters and port groups.

use std::fmt;
use std::marker::PhantomData;
use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::Rate;
use crate::rate::scaled;

/// Units of rates of messages and their values, the largest first.
const UNITS: [(&str, u64); 3] = [("g", 1_000_000_000), ("m", 1_000_000), ("k", 1000)];

/// Messages a second, at least [`OpsRate::LEAST`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OpsRate(NonZeroU64);

impl OpsRate {
    /// The smallest rate: one message every 10 ms, so that none waits for longer than programs do.
    pub const LEAST: u64 = 100;

    /// Returns the messages per second.
    pub const fn get(self) -> NonZeroU64 {
        self.0
    }
}

/// Why a text or number is not an [`OpsRate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotAnOpsRate {
    /// The text is not a rate.
    Unreadable(String),
    /// The rate is less than [`OpsRate::LEAST`].
    TooSmall(String),
}

impl fmt::Display for NotAnOpsRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(text) => write!(
                f,
                "{text:?} is not a number of messages: use one such as 5000, 100k or 2m"
            ),
            Self::TooSmall(text) => {
                write!(f, "{text} messages a second are too few: use 100 or more")
            }
        }
    }
}

impl std::error::Error for NotAnOpsRate {}

impl TryFrom<u64> for OpsRate {
    type Error = NotAnOpsRate;

    fn try_from(number: u64) -> Result<Self, NotAnOpsRate> {
        match NonZeroU64::new(number) {
            Some(rate) if number >= Self::LEAST => Ok(Self(rate)),
            _ => Err(NotAnOpsRate::TooSmall(number.to_string())),
        }
    }
}

impl FromStr for OpsRate {
    type Err = NotAnOpsRate;

    fn from_str(text: &str) -> Result<Self, NotAnOpsRate> {
        let lower = text.to_ascii_lowercase();
        let unit = UNITS.iter().find(|(unit, _)| lower.ends_with(unit));
        let (unit, factor) = unit.map_or(("", 1), |(unit, factor)| (*unit, *factor));
        let number = scaled(&lower[..lower.len() - unit.len()], factor);
        let number = number.ok_or_else(|| NotAnOpsRate::Unreadable(text.to_owned()))?;
        Self::try_from(number).map_err(|_| NotAnOpsRate::TooSmall(text.to_owned()))
    }
}

impl fmt::Display for OpsRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0.get();
        let fits = |(_, factor): &&(&str, u64)| number.is_multiple_of(*factor);
        let (unit, factor) = UNITS.iter().find(fits).unwrap_or(&("", 1));
        f.pad(&format!("{}{unit}", number / factor))
    }
}

impl Serialize for OpsRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OpsRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "messages a second, such as \"100k\"";
        deserializer.deserialize_any(TextOrNumber::new(expecting))
    }
}

/// Parser of a text with a unit, or of a number.
pub(crate) struct TextOrNumber<T> {
    expecting: &'static str,
    value: PhantomData<T>,
}

impl<T> TextOrNumber<T> {
    pub(crate) fn new(expecting: &'static str) -> Self {
        Self {
            expecting,
            value: PhantomData,
        }
    }
}

impl<T> Visitor<'_> for TextOrNumber<T>
where
    T: FromStr<Err: fmt::Display> + TryFrom<u64, Error: fmt::Display>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_u64(u64::try_from(number).unwrap_or(0))
    }
}

/// Weight of the turns of an adapter or a port group beside those of others, 1 to 100.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(into = "u32")]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The largest weight.
    pub const MOST: u64 = 100;

    /// Returns the number.
    pub const fn get(self) -> NonZeroU32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(NonZeroU32::MIN)
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> Self {
        weight.0.get()
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

pub(crate) fn is_default(weight: &Weight) -> bool {
    *weight == Weight::default()
}

/// Why a text or number is not a [`Weight`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAWeight(String);

impl fmt::Display for NotAWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not a weight: use a whole number from 1 to 100",
            self.0
        )
    }
}

impl std::error::Error for NotAWeight {}

impl TryFrom<u64> for Weight {
    type Error = NotAWeight;

    fn try_from(number: u64) -> Result<Self, NotAWeight> {
        let weight = u32::try_from(number).ok().and_then(NonZeroU32::new);
        let weight = weight.filter(|_| number <= Self::MOST);
        weight
            .map(Self)
            .ok_or_else(|| NotAWeight(number.to_string()))
    }
}

impl FromStr for Weight {
    type Err = NotAWeight;

    fn from_str(text: &str) -> Result<Self, NotAWeight> {
        let number: u64 = text.parse().map_err(|_| NotAWeight(format!("{text:?}")))?;
        Self::try_from(number)
    }
}

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber::new("a weight from 1 to 100"))
    }
}

/// The most that an adapter, or the adapters of a port group together, may send and receive, and the least that they
/// can send and receive. Where a value is absent, there is no limit, or no guarantee.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Limit on bits sent per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_out: Option<Rate>,
    /// Limit on bits received per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_in: Option<Rate>,
    /// Limit on messages sent per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_out_ops: Option<OpsRate>,
    /// Limit on messages received per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_in_ops: Option<OpsRate>,
    /// Bits per second that it can send, whatever others of its shard do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee_out: Option<Rate>,
    /// Bits per second that others of its host can send to it, whatever else their shards do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee_in: Option<Rate>,
    /// Messages per second that it can send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee_out_ops: Option<OpsRate>,
    /// Messages per second that others of its host can send to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee_in_ops: Option<OpsRate>,
}

/// A change of limits. Values that are absent stay as they are; `null` removes a limit or a guarantee.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LimitsChange {
    /// Limit on bits sent per second.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub limit_out: Option<Option<Rate>>,
    /// Limit on bits received per second.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub limit_in: Option<Option<Rate>>,
    /// Limit on messages sent per second.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub limit_out_ops: Option<Option<OpsRate>>,
    /// Limit on messages received per second.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub limit_in_ops: Option<Option<OpsRate>>,
    /// Bits per second that it can send.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub guarantee_out: Option<Option<Rate>>,
    /// Bits per second that others of its host can send to it.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub guarantee_in: Option<Option<Rate>>,
    /// Messages per second that it can send.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub guarantee_out_ops: Option<Option<OpsRate>>,
    /// Messages per second that others of its host can send to it.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub guarantee_in_ops: Option<Option<OpsRate>>,
}

impl LimitsChange {
    /// Returns the change that leads to these limits, whatever they were before.
    pub fn to(limits: Limits) -> Self {
        Self {
            limit_out: Some(limits.limit_out),
            limit_in: Some(limits.limit_in),
            limit_out_ops: Some(limits.limit_out_ops),
            limit_in_ops: Some(limits.limit_in_ops),
            guarantee_out: Some(limits.guarantee_out),
            guarantee_in: Some(limits.guarantee_in),
            guarantee_out_ops: Some(limits.guarantee_out_ops),
            guarantee_in_ops: Some(limits.guarantee_in_ops),
        }
    }
}

impl Limits {
    /// Returns the limits after a change.
    pub fn changed(self, change: &LimitsChange) -> Self {
        Self {
            limit_out: change.limit_out.unwrap_or(self.limit_out),
            limit_in: change.limit_in.unwrap_or(self.limit_in),
            limit_out_ops: change.limit_out_ops.unwrap_or(self.limit_out_ops),
            limit_in_ops: change.limit_in_ops.unwrap_or(self.limit_in_ops),
            guarantee_out: change.guarantee_out.unwrap_or(self.guarantee_out),
            guarantee_in: change.guarantee_in.unwrap_or(self.guarantee_in),
            guarantee_out_ops: change.guarantee_out_ops.unwrap_or(self.guarantee_out_ops),
            guarantee_in_ops: change.guarantee_in_ops.unwrap_or(self.guarantee_in_ops),
        }
    }
}

/// Tells `null` from an absent value.
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_units() {
        for (text, number, shown) in [
            ("5000", 5000, "5k"),
            ("100k", 100_000, "100k"),
            ("2.5M", 2_500_000, "2500k"),
            ("101", 101, "101"),
        ] {
            let rate: OpsRate = text.parse().unwrap();
            assert_eq!((rate.get().get(), &*rate.to_string()), (number, shown));
            let json = serde_json::to_string(&rate).unwrap();
            assert_eq!(serde_json::from_str::<OpsRate>(&json).unwrap(), rate);
        }
        for bad in ["", "k", "-5k", "99", "0", "10kbit", "99999999999g"] {
            assert!(bad.parse::<OpsRate>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn wrong_values_are_told_in_a_sentence() {
        let error = serde_json::from_str::<Weight>("0").unwrap_err().to_string();
        let sentence = "0 is not a weight: use a whole number from 1 to 100";
        assert!(error.starts_with(sentence), "{error}");
        let error = "99".parse::<OpsRate>().unwrap_err().to_string();
        let sentence = "99 messages a second are too few: use 100 or more";
        assert_eq!(error, sentence);
        assert!("101".parse::<Weight>().is_err());
        assert_eq!(u32::from(Weight::default()), 1);
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let limits: Limits =
            serde_json::from_str(r#"{ "limit_out": "1gbit", "limit_in_ops": "5k" }"#).unwrap();
        let change = r#"{ "limit_out": null, "limit_in": "2gbit" }"#;
        let limits = limits.changed(&serde_json::from_str(change).unwrap());
        let expected = r#"{"limit_in":"2gbit","limit_in_ops":"5k"}"#;
        assert_eq!(serde_json::to_string(&limits).unwrap(), expected);
    }
}
