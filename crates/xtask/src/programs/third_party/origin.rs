//! Where programs come from, and which version of them came.

use anyhow::Result;
use vrdma_lab::image::Root;

/// A name in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A package of Debian.
    Debian(&'static str),
}

impl Origin {
    /// For a person.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Debian(package) => package,
        }
    }

    /// What its registry gave.
    pub(super) fn version(self, root: &Root) -> Result<String> {
        match self {
            Self::Debian(package) => root.version(package),
        }
    }
}
