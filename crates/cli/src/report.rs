//! What a command found, for programs and for people.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::failure::Failure;

/// The result of a command, in both forms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    json: String,
    text: String,
    is_bad_news: bool,
}

impl Report {
    /// Makes a report from a value and its text, which ends without a newline.
    pub(crate) fn new(value: &impl Serialize, text: impl Into<String>) -> Self {
        let json = serde_json::to_string_pretty(value)
            .expect("API types have string keys and no failing serializer");
        Self {
            json,
            text: text.into(),
            is_bad_news: false,
        }
    }

    /// Marks what the command found as wrong: the command worked, but the exit status is a failure.
    pub(crate) fn bad_news(self, is_bad_news: bool) -> Self {
        Self {
            is_bad_news,
            ..self
        }
    }

    /// The form of the report that was asked for.
    pub(crate) fn form(&self, json: bool) -> &str {
        if json { &self.json } else { &self.text }
    }

    /// Prints the report. A reader that has seen enough (`vrdma stats | head`) is no failure.
    pub(crate) fn print(&self, json: bool) -> Result<ExitCode, Failure> {
        let code = if self.is_bad_news {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        };
        match writeln!(std::io::stdout(), "{}", self.form(json)) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::new(format!("cannot write the result: {error}")))
            }
            _ => Ok(code),
        }
    }
}
