//! How the data path waits for work.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a data path thread does while there is no work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PollMode {
    /// The thread polls on for a moment, naps while guests hold doorbells in memory, else sleeps.
    #[default]
    Adaptive,
    /// The thread never sleeps, as with DPDK and SPDK: for a core that nothing else uses.
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
