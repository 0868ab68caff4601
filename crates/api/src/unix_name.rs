//! Users and groups of the host.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use crate::name::shortened;

/// A user or a group of the host: its name, or its number as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(into = "String")]
pub struct UnixName(String);

impl UnixName {
    /// Longest name in bytes: longer than any that `useradd` makes.
    pub const BYTES_MAX: usize = 64;

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the number, if the text is one.
    pub fn number(&self) -> Option<u32> {
        self.0.parse().ok()
    }
}

impl fmt::Display for UnixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not an [`UnixName`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAUnixName(String);

impl fmt::Display for NotAUnixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no user or group: write its name or its number, such as \"alice\" or 1000",
            shortened(&self.0)
        )
    }
}

impl std::error::Error for NotAUnixName {}

impl FromStr for UnixName {
    type Err = NotAUnixName;

    fn from_str(text: &str) -> Result<Self, NotAUnixName> {
        let later = |byte: u8| byte.is_ascii_graphic() && !b",:/\"'`".contains(&byte);
        let first = |byte: u8| later(byte) && !b"-+~".contains(&byte);
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        // The highest number means "no change" to system calls (setuid(2)).
        let is_usable = !is_number || text.parse().is_ok_and(|number: u32| number != u32::MAX);
        let is_valid = text.len() <= Self::BYTES_MAX
            && text.bytes().next().is_some_and(first)
            && text.bytes().all(later)
            && is_usable;
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAUnixName(text.to_owned()))
        }
    }
}

impl From<UnixName> for String {
    fn from(name: UnixName) -> Self {
        name.0
    }
}

impl<'de> Deserialize<'de> for UnixName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnixNameVisitor)
    }
}

/// A visitor of our own, so that a number may be written without quotes.
struct UnixNameVisitor;

impl Visitor<'_> for UnixNameVisitor {
    type Value = UnixName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name or number of a user or group")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<UnixName, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<UnixName, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<UnixName, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_written_as_they_come() {
        let read = |json: &str| serde_json::from_str::<UnixName>(json).map(String::from);
        assert_eq!(read("\"alice\"").unwrap(), "alice");
        assert_eq!(read("1000").unwrap(), "1000");
        assert_eq!(read("\"1000\"").unwrap(), "1000");
        assert_eq!("1000".parse::<UnixName>().unwrap().number(), Some(1000));
        assert_eq!("alice".parse::<UnixName>().unwrap().number(), None);
        for wrong in [
            "-1",
            "4294967295",
            "\"\"",
            "\"a b\"",
            "\"a,b\"",
            "\"-x\"",
            "1.5",
            "true",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let sentence = read("4294967296").unwrap_err().to_string();
        assert!(sentence.contains("is no user or group"), "{sentence}");
    }
}
