//! Shards: the threads of the data path.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// One shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShardStatus {
    /// The core that it has to itself, if it was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    /// Number of adapters that it serves.
    pub adapters: u32,
    /// Part of the last second in which it had work, in percent.
    pub busy_percent: u8,
    /// Units, answers and packets that it has handed to other shards since the daemon started.
    pub transfers: u64,
    /// How long it has made no turn although it was woken, in milliseconds; meanwhile, what it knows of its adapters is
    /// not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
}

/// The shard that an adapter is to move to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// Number of the shard: its place in [`Status::shards`](crate::Status::shards).
    #[serde(deserialize_with = "number")]
    pub shard: u16,
}

/// Parses the number of a shard.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    from.deserialize_u16(NumberVisitor)
}

/// The same for a number that may be missing, in a field with a default.
pub(crate) fn stated<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    number(from).map(Some)
}

struct NumberVisitor;

/// A visitor of our own, so that an error says what to write, instead of "expected u16".
impl Visitor<'_> for NumberVisitor {
    type Value = u16;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a shard, 0 or more, without quotes")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u16, E> {
        let unexpected = de::Unexpected::Signed(number);
        u16::try_from(number).map_err(|_| E::invalid_value(unexpected, &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u16, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_of_a_shard_is_told_what_one_is() {
        for (given, said) in [
            ("-1", "invalid value: integer `-1`"),
            ("65536", "invalid value: integer `65536`"),
            ("\"x\"", "invalid type: string \"x\""),
        ] {
            let refused = serde_json::from_str::<MoveRequest>(&format!("{{\"shard\":{given}}}"));
            let sentence = refused.unwrap_err().to_string();
            let expected =
                format!("{said}, expected the number of a shard, 0 or more, without quotes");
            assert!(sentence.starts_with(&expected), "{sentence}");
        }
    }
}
