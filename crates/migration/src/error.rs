//! Why a VM was not migrated, and where it is then.

use std::fmt;

use crate::progress::Phase;

/// One sentence, without its full stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause(String);

impl Cause {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl std::error::Error for Cause {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A migration that failed, wholly or in part.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A check before any change failed.
    #[error("{0}")]
    Unfit(String),
    /// Something failed before the point of no return; the migration was taken back.
    #[error("the migration failed while {phase}: {why}; {}", At(left))]
    Aborted {
        /// Phase that failed.
        phase: Phase,
        /// What failed.
        why: String,
        /// Sentences about what could not be taken back. If empty, the VM runs on at the source as before.
        left: Vec<String>,
    },
    /// Something failed after the source's daemon gave the adapter up, or may have done so.
    #[error("the migration failed while {phase}: {why}; {state}")]
    Released {
        /// Phase that failed.
        phase: Phase,
        /// What failed.
        why: String,
        /// Where the VM and its adapter are, and what the user has to do.
        state: String,
    },
    /// A migration whose orchestrator is gone was not taken back, or not wholly.
    #[error("not all could be taken back: {}", left.join("; "))]
    Unrecovered {
        /// Sentences about what could not be taken back.
        left: Vec<String>,
    },
}

struct At<'a>(&'a [String]);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("the VM runs on at the source with its connections"),
            left => write!(f, "not all could be taken back: {}", left.join("; ")),
        }
    }
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        Self::Unfit(cause.to_string())
    }
}
