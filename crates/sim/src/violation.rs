//! Promises that were broken.

use std::fmt;

/// A broken promise, in a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(String);

impl Violation {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// Makes one of the error of a call that should have worked.
    pub(crate) fn from_error(error: impl fmt::Display) -> Self {
        Self(format!("a call that must succeed was refused: {error}"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// Returns `Ok` if `condition` holds.
pub(crate) fn check(condition: bool, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if condition {
        Ok(())
    } else {
        Err(Violation(what()))
    }
}
