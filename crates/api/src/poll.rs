//! How the data path waits for work.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a data path thread does while there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PollMode {
    /// It polls on for a moment, naps while guests hold doorbells in memory, else sleeps.
    #[default]
    Adaptive,
    /// It never sleeps, as DPDK and SPDK have it: for a core that nobody else uses.
    Always,
}

impl fmt::Display for PollMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Adaptive => "adaptive",
            Self::Always => "always",
        })
    }
}
