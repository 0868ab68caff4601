//! Why a VM did not go, and where it is then.

use std::fmt;

use crate::progress::Phase;

/// One sentence, without its end.
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

/// A migration that did not happen, or not wholly.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A check before anything was changed.
    #[error("{0}")]
    Unfit(String),
    /// Something failed before the point of no return, and was taken back.
    #[error("the migration failed while {phase}: {why}; {}", At(left))]
    Aborted {
        /// What was going on.
        phase: Phase,
        /// What failed.
        why: String,
        /// What could not be taken back, as sentences. If nothing, the VM runs on at the source as before.
        left: Vec<String>,
    },
    /// Something failed after the source's daemon gave the adapter up, or may have done so.
    #[error("the migration failed while {phase}: {why}; {state}")]
    Released {
        /// What was going on.
        phase: Phase,
        /// What failed.
        why: String,
        /// Where the VM and its adapter are, and what to do.
        state: String,
    },
    /// A migration without its orchestrator was not taken back, or not wholly.
    #[error("not all could be taken back: {}", left.join("; "))]
    Unrecovered {
        /// What could not, as sentences.
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
