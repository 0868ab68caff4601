//! One sentence for a wrong configuration: file, line and key, what is wrong, how to correct it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

/// A wrong configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        let mend = "name another file with --config";
        Self(format!(
            "cannot read the configuration {}: {error}; {mend}",
            path.display()
        ))
    }
}

/// The text that errors point into.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// Makes an error about the value at `place`.
    pub(super) fn at(&self, place: Range<usize>, sentence: &str) -> ConfigError {
        let path = self.path.display();
        if self.text.is_empty() {
            return ConfigError(format!("{path}: {sentence}"));
        }
        let before = self.text.get(..place.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let key = self
            .key(line)
            .map(|key| format!(", key {key}"))
            .unwrap_or_default();
        ConfigError(format!("{path}, line {line}{key}: {sentence}"))
    }

    /// Returns the text left of the equals sign.
    fn key(&self, line: usize) -> Option<&str> {
        let text = self.text.lines().nth(line - 1)?;
        let key = text.split_once('=')?.0.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        (!key.is_empty() && key.chars().all(plain)).then_some(key)
    }

    /// Makes an error from one of the parser, with advice.
    pub(super) fn toml(&self, error: &toml::de::Error) -> ConfigError {
        let message = error.message().replace('\n', ", ");
        let mend = MENDS
            .iter()
            .find(|(symptom, _)| message.contains(symptom))
            .map(|(_, mend)| mend);
        let sentence = match mend {
            Some(mend) => format!("{message}; {mend}"),
            None => message,
        };
        self.at(error.span().unwrap_or(0..0), &sentence)
    }
}

/// Advice for errors of the parser, by a part of the message.
const MENDS: &[(&str, &str)] = &[
    ("unknown field", "correct the spelling or remove the line"),
    ("unknown variant", "write one of these in double quotes"),
    ("wanted string or table", "write it in double quotes"),
    ("missing field", "add it to this table"),
    (
        "expected a sequence",
        "write the table's name in double brackets, such as [[adapter]]",
    ),
    ("duplicate key", "keep one of the two"),
    (
        "invalid type",
        "write the value as the example in `vrdmad --help` does",
    ),
];
