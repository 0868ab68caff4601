//! Names of port groups and adapters.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A name: `[a-z0-9][a-z0-9_.-]{0,31}`.
///
/// It becomes a file name and a part of QEMU options, so it can hold no slash, comma, blank or leading dot. Copies
/// share the text: a host has thousands of adapters, and each name is in many tables.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

impl Name {
    /// Longest name in bytes, which leaves room for the folder in a Unix socket's path of 107 bytes.
    pub const BYTES_MAX: usize = 32;

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text without copying it.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// Why a text is not a [`Name`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAName(String);

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a name: use 1 to 32 of the characters a-z, 0-9, '_', '.', '-', beginning with a letter or digit",
            shortened(&self.0)
        )
    }
}

/// Shortens a text that an error quotes: a hostile one must not flood the log.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl std::error::Error for NotAName {}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let later = |byte: u8| first(byte) || matches!(byte, b'_' | b'.' | b'-');
        let valid = text.len() <= Self::BYTES_MAX
            && text.bytes().next().is_some_and(first)
            && text.bytes().all(later);
        if valid {
            Ok(Self(text.into()))
        } else {
            Err(NotAName(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Name {
    type Error = NotAName;

    fn try_from(text: String) -> Result<Self, NotAName> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        (*name.0).to_owned()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
