//! Why a command did nothing: one sentence on standard error.

use std::fmt;
use std::process::ExitCode;

use vrdma_api::ApiError;
use vrdma_api_client::Error;

/// A command that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// Prints the sentence, as JSON for programs, and exits with 1; 2 is for wrong arguments.
    pub(crate) fn print(&self, json: bool) -> ExitCode {
        if json {
            let error = ApiError {
                error: self.0.clone(),
            };
            eprintln!("{}", serde_json::json!(error));
        } else {
            eprintln!("vrdma: {self}");
        }
        ExitCode::FAILURE
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Unreachable { .. } => Self(format!("{error}, or name its socket with --socket")),
            _ => Self(error.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
