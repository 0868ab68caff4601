//! The reason why a relay cannot go on.

use std::fmt;

use crate::stream::Fault;

/// One sentence, without its full stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure(String);

impl Failure {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<String> for Failure {
    fn from(sentence: String) -> Self {
        Self(sentence)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::new(format!("in what the source's QEMU sends: {fault}"))
    }
}
